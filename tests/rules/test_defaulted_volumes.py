"""JobSet's own webhook completes volume claims at CREATE and never again; Trainer's applies lack what it added."""

from __future__ import annotations

import copy

import pytest

from tests.support import reapplies


def claims(**template):
    claim = {"metadata": {"name": "initializer"}, "spec": {"accessModes": ["ReadWriteOnce"]}, **template}
    return [{"templates": [claim]}]


def defaulted():
    return [{"retentionPolicy": {"whenDeleted": "Delete"}, **claims(status={})[0]}]


def jobset(policies, *, suspend=True):
    document = copy.deepcopy(reapplies.JOBSETS["a torchrun of its own"])
    document["spec"] |= {"volumeClaimPolicies": policies, "suspend": suspend}
    return document


@pytest.fixture
def old():
    return reapplies.stored(jobset(defaulted()))


def test_a_resume_that_lacks_what_jobset_added_keeps_the_claims_as_stored(old):
    incoming = copy.deepcopy(old)
    incoming["spec"] |= {"volumeClaimPolicies": claims(), "suspend": False}

    updated = reapplies.updated(old, incoming)

    assert updated["spec"]["volumeClaimPolicies"] == defaulted()
    assert updated["spec"]["suspend"] is False


EDITS = {
    "another size": claims(spec={"accessModes": ["ReadWriteMany"]}),
    "a status that says something": claims(status={"phase": "Bound"}),
    "another retention": [{**claims()[0], "retentionPolicy": {"whenDeleted": "Retain"}}],
    "another claim": [*claims(), *claims()],
    "none": [],
    "no list": "initializer",
    "no objects": ["initializer"],
    "no templates": [{"templates": None}],
    "templates that are no objects": [{"templates": ["x"]}],
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS)
def test_a_real_edit_of_the_claims_is_left_to_the_api(old, edit):
    incoming = copy.deepcopy(old)
    incoming["spec"]["volumeClaimPolicies"] = edit

    assert reapplies.updated(old, incoming)["spec"].get("volumeClaimPolicies") == edit


def test_claims_that_were_removed_are_left_to_the_api(old):
    incoming = copy.deepcopy(old)
    del incoming["spec"]["volumeClaimPolicies"]

    assert "volumeClaimPolicies" not in reapplies.updated(old, incoming)["spec"]
