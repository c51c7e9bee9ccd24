"""An UPDATE is judged only for what the API lets through and Trainer then trips over."""

from __future__ import annotations

import copy

import orjson
import pytest

from muster.webhook.admission import decisions, reviews
from tests.support import admissions, jobs

RUNTIME = jobs.make_runtime()
WITH = jobs.make_trainjob(command=["torchrun", "x"], numNodes=2)
WITHOUT = jobs.make_trainjob()


def validated(new, old, *cluster, **request):
    return admissions.respond(new, *cluster, operation="UPDATE", old=old, phase="validate", **request)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (WITHOUT, WITH, "cannot be set after creation"),
        (WITH, WITHOUT, "cannot be removed after creation"),
        (jobs.make_trainjob(spec={"trainer": None}), WITH, "cannot be set after creation"),
        (WITH, jobs.make_trainjob(spec={"trainer": None}), "cannot be removed after creation"),
        (WITHOUT, jobs.make_trainjob(spec={"trainer": {}}), "cannot be set after creation"),
    ],
)
def test_a_trainer_section_can_neither_appear_nor_vanish(old, new, message):
    response = validated(new, old, RUNTIME)
    assert response["allowed"] is False
    assert response["status"]["code"] == 422
    (cause,) = response["status"]["details"]["causes"]
    assert cause["field"] == "spec.trainer"
    assert message in cause["message"]


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["spec"].update(suspend=True),
        lambda d: d["metadata"].update(labels={"a": "b"}),
        lambda d: d["metadata"].update(finalizers=[]),
    ],
)
def test_every_other_edit_is_the_apis_to_judge(change):
    new = copy.deepcopy(WITH)
    change(new)
    assert validated(new, WITH, RUNTIME) == {
        "uid": admissions.UID,
        "allowed": True,
        "auditAnnotations": {"decision": "allowed", "mode": "enforce"},
    }


def test_a_job_that_is_being_deleted_is_let_go():
    new = copy.deepcopy(WITHOUT)
    new["metadata"]["deletionTimestamp"] = "2026-11-21T00:00:00Z"
    assert validated(new, WITH, RUNTIME)["allowed"] is True


def test_a_job_that_would_be_denied_at_create_can_still_be_updated():
    wrong = jobs.make_trainjob(command=["trl", "sft"], args=["--no_such_flag"], numNodes=0)
    assert admissions.respond(wrong, RUNTIME, phase="validate")["allowed"] is False
    new = copy.deepcopy(wrong)
    new["spec"]["suspend"] = True
    assert validated(new, wrong, RUNTIME)["allowed"] is True


def test_updates_pass_when_the_runtime_is_gone():
    new = copy.deepcopy(WITH)
    new["spec"]["suspend"] = True
    assert validated(new, WITH)["allowed"] is True


def test_the_transition_is_denied_also_when_the_runtime_is_gone_or_unreadable():
    broken = copy.deepcopy(RUNTIME)
    broken["spec"]["mlPolicy"] = []
    for cluster in ([], [broken]):
        assert validated(WITH, WITHOUT, *cluster)["allowed"] is False


def test_a_namespace_that_only_warns_is_not_denied_although_the_runtime_is_unreadable():
    broken = copy.deepcopy(RUNTIME)
    broken["spec"]["mlPolicy"] = []
    response = validated(WITH, WITHOUT, broken, jobs.make_namespace("warn"))
    assert response["allowed"] is True
    assert "cannot be set after creation" in response["warnings"][0]


@pytest.mark.parametrize("spec", ["text", [], {"trainer": "text"}, None])
def test_an_update_of_a_wrong_shape_is_the_apis_to_judge(spec):
    for old, new in ((WITH, {**WITH, "spec": spec}), ({**WITH, "spec": spec}, WITH)):
        for phase in ("mutate", "validate"):
            response = admissions.respond(new, RUNTIME, operation="UPDATE", old=old, phase=phase)
            assert response["allowed"] is (spec is not None or phase == "mutate")
            assert admissions.patch_of(response) == []


def test_a_jobset_may_be_updated_to_anything():
    old = jobs.make_jobset()
    new = copy.deepcopy(old)
    new["spec"]["replicatedJobs"] = []
    assert validated(new, old)["allowed"] is True


@pytest.mark.parametrize(("operation", "allowed"), [("CREATE", False), ("UPDATE", True)])
def test_a_cluster_that_does_not_answer_stops_new_jobs_and_lets_live_ones_go_on(operation, allowed):
    request = reviews.parse(orjson.dumps(admissions.make_review(WITH, operation, WITH)), "validate")
    decision = decisions.failed(request, admissions.POLICY, "the API server did not answer")
    assert (decision.verdict, decision.allowed, decision.message) == ("error", allowed, "the API server did not answer")
