"""The notebooks run from top to bottom, draw what they promise, and say nothing on stderr."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "notebooks"
EXECUTE = Path(__file__).parent / "programs" / "execute.py"
NOTEBOOKS = sorted(each.stem for each in FOLDER.glob("*.ipynb"))


@pytest.fixture(scope="session")
def kernel() -> Path:
    named = shutil.which(os.environ.get("MUSTER_SDK_PYTHON", ""))
    if named is None:
        pytest.fail("MUSTER_SDK_PYTHON must name a python that has nbclient and ipykernel; `make contract` does")
    return Path(named)


@pytest.fixture
def executed(kernel, python, tmp_path):
    """Run a notebook and return the outputs of its cells."""

    def execute(name):
        environment = os.environ | {
            "HOME": str(tmp_path),
            "MPLBACKEND": "module://matplotlib_inline.backend_inline",
            "MPLCONFIGDIR": str(kernel.parents[1] / "matplotlib"),
            "MUSTER_TRL_PYTHON": str(python),
            "PYTHONPATH": str(ROOT),
        }
        out = tmp_path / "executed.ipynb"
        command = [kernel, EXECUTE, FOLDER / f"{name}.ipynb", out]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return [output for cell in cells(out) for output in cell.get("outputs", ())]

    return execute


def cells(path):
    return json.loads(path.read_text())["cells"]


def said(outputs, stream="stdout"):
    texts = [each["text"] for each in outputs if each.get("name") == stream]
    return "".join(text if isinstance(text, str) else "".join(text) for text in texts)


def plots(outputs):
    """The sizes of the drawn pictures, in characters of base64."""
    found = (each.get("data", {}).get("image/png") for each in outputs)
    return [len("".join(each)) for each in found if each]


def test_fine_tuning_trains_for_real_and_the_loss_falls(executed):
    outputs = executed("fine-tuning")
    assert said(outputs, "stderr") == ""
    (plot,) = plots(outputs)
    assert plot > 5000
    text = said(outputs)
    assert "arguments['sead']: is not a flag of trl sft" in text
    assert "-    - trl\n-    - sft\n+    - torchrun" in text
    assert "The job of the trainer: no difference" in text
    first, last = map(float, re.search(r"loss: ([\d.]+) at the first step, ([\d.]+) at the last", text).groups())
    assert last < first - 1


def test_the_week_of_audit_records_is_whole_and_drawn(executed):
    outputs = executed("audit-week")
    assert said(outputs, "stderr") == ""
    assert len(plots(outputs)) == 3
    assert min(plots(outputs)) > 5000
    text = said(outputs)
    assert "the chain is intact" in text
    counted = {kind: int(number) for number, kind in re.findall(r"(\d+) (jobs|right|corrected|warned|refused)", text)}
    assert counted.pop("jobs") == sum(counted.values()) > 150
    assert min(counted.values()) > 10


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_committed_without_outputs(name):
    kept = cells(FOLDER / f"{name}.ipynb")
    code = [cell for cell in kept if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)
    assert len({cell["id"] for cell in kept}) == len(kept)


def test_every_notebook_is_run_here():
    assert NOTEBOOKS == ["audit-week", "fine-tuning"]
