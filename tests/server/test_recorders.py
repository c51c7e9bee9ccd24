"""The audit writer of the service, and what is counted of it."""

from __future__ import annotations

from muster.webhook import configs
from muster.webhook.metrics import Metrics
from muster.webhook.server import recorders
from tests.support import trails, waits


async def test_a_log_that_cannot_be_written_is_counted(tmp_path):
    file = {"path": str(tmp_path / "later" / "audit.log")}
    metrics = Metrics()
    recorder = recorders.open_recorder(configs.Audit.model_validate({"stdout": False, "file": file}), metrics)
    assert b'muster_audit_problems_total{kind="sink"} 0.0' in metrics.render()
    assert recorder.submit(trails.decisions(trails.EXAMPLES[:1])[0])
    await waits.until(lambda: b'muster_audit_problems_total{kind="sink"} 0.0' not in metrics.render())
    (tmp_path / "later").mkdir()
    recorder.close()
