"""Muster's memory of a JobSet says what it foretold, so that a measurement can be compared with it."""

from __future__ import annotations

import copy
import json

import pytest

from muster.strategies.changes import restores
from tests.injection import guarded
from tests.support import jobs

GPUS = {"limits": {"nvidia.com/gpu": 2}}
TWO = {"numNodes": 2, "resourcesPerNode": GPUS}
APPLIED = "muster.dev/applied"


def foretold(command, *, inject="never", annotations=None, **trainer):
    """Whether the memory of a created JobSet says that it was found certain."""
    jobset, cluster = guarded.cluster_of(command, **trainer)
    jobset["metadata"].setdefault("annotations", {}).update(annotations or {})
    decision = guarded.decide(jobset, cluster, guarded.policy(inject))
    return restores.is_certain(decision.changes.document["metadata"]["annotations"])


@pytest.mark.parametrize("inject", ["never", "open", "always"])
def test_a_launch_that_documents_decide_is_foretold_as_right_whether_or_not_it_gets_the_guard(inject):
    assert foretold(guarded.COUNTED, inject=inject, **TWO)


@pytest.mark.parametrize(
    "command",
    [guarded.UNREAD, ["python", "train.py"], ["torchrun", "--nproc-per-node=1", "train.py"], None],
    ids=["unread", "a program of its own", "idle devices", "the image's own"],
)
def test_anything_else_is_foretold_as_open_whatever_its_author_wrote(command):
    claimed = json.dumps({"strategy": "torch", "version": "1", "fields": {}, "predicted": "right"})
    assert not foretold(command, annotations={APPLIED: claimed}, **TWO)


def test_no_update_changes_what_was_foretold():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD, **TWO)
    old = guarded.decide(jobset, cluster, guarded.policy("never")).changes.document
    update = copy.deepcopy(old)
    note = json.loads(update["metadata"]["annotations"][APPLIED])
    update["metadata"]["annotations"][APPLIED] = json.dumps({**note, "predicted": "right"})
    decision = guarded.decide(update, cluster, guarded.policy("never"), operation="UPDATE", old=old)
    assert not restores.is_certain(decision.changes.document["metadata"]["annotations"])


def test_a_trainjob_is_not_foretold_since_its_jobset_is():
    runtime = jobs.make_runtime("torch-distributed", framework="torch")
    trainjob = jobs.make_trainjob(runtime="torch-distributed", command=["trl", "sft"], trainer=None)
    found = guarded.admissions.decide(trainjob, runtime, policy=guarded.policy("never")).changes.document
    assert not restores.is_certain(found["metadata"].get("annotations", {}))
