"""A framework that nobody serves: nothing enforced, nothing broken."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.default.default_strategy import DefaultStrategy
from tests.frameworks.builders import enforce, gpus, job_of, jobset, replicated_job, runtime, trainjob

DOCUMENTS = {
    "a TrainJob": trainjob({"command": ["trl", "sft"], "numNodes": 2}),
    "a TrainJob without a trainer section": trainjob(None),
    "a JobSet": jobset(replicated_job("node", {"name": "node", "resources": gpus(2)}, parallelism=2)),
    "a JobSet without jobs": jobset(),
}


@pytest.mark.parametrize("framework", ["jax", "", None], ids=["an unknown label", "an empty label", "no label"])
@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_nothing_is_changed_and_nothing_is_said(document, framework):
    out = enforce(framework, document, runtime("jax", policy={"jax": {}}))
    assert (len(out.changes), out.warnings) == (0, [])
    assert list(DefaultStrategy().validate(job_of(document))) == []
