"""What a strategy of somebody else hands back is looked at before it is used."""

from __future__ import annotations

import copy
import re

import pytest

from muster.strategies import error
from tests.support import acmes, admissions, jobs, upstream

# --- it returns rubbish -----------------------------------------------------------------------------------------


class Loose:
    """Looks like a finding and is none."""

    severity, field, value, message, rule = "error", "spec", None, "x", "acme/x"


@pytest.mark.parametrize(
    "rubbish",
    [
        None,
        5,
        True,
        [None],
        ["spec: wrong"],
        [("error", "spec")],
        {"spec": "wrong"},
        [Loose()],
        [error(None, None, "x", rule="r")],
        [error("spec", None, None, rule="r")],
        [error("spec", None, "x", rule=5)],
        [error("spec", object(), "x", rule="r")],
        [error("spec", {1: 2}, "x", rule="r")],
        [error("spec", {"a": {3, 4}}, "x", rule="r")],
        [error("spec", float("nan"), "x", rule="r")],
        [error("spec", 2**70, "x", rule="r")],
        [error("spec", b"bytes", "x", rule="r")],
    ],
    ids=lambda rubbish: re.sub(" at 0x[0-9a-f]+", "", repr(rubbish)),
)
def test_findings_that_are_none_are_the_strategys_failure(rubbish):
    decision = acmes.decide(acmes.acme(validate=lambda _: rubbish), "validate")
    assert decision.verdict == "error"
    assert "failed in validate: TypeError" in decision.message


@pytest.mark.parametrize("value", [object(), {1: 2}, {"a": {1}}, b"x", float("nan"), float("inf"), 2**70, "\ud800"])
def test_a_value_that_is_no_json_is_the_strategys_failure(value):
    decision = acmes.decide(
        acmes.acme(enforce_command=lambda _, changes: changes.set(("spec", "x"), value, **acmes.WHY))
    )
    assert decision.verdict == "error"
    assert "is not a JSON value" in decision.message


@pytest.mark.parametrize(
    "call",
    [
        lambda changes: changes.set(None, 1, **acmes.WHY),
        lambda changes: changes.set((), 1, **acmes.WHY),
        lambda changes: changes.set(("spec", 3.5), 1, **acmes.WHY),
        lambda changes: changes.set(("spec", "trainer", "env", 9), 1, **acmes.WHY),
        lambda changes: changes.set(("spec",), "text", **acmes.WHY) or changes.set(("metadata",), "text", **acmes.WHY),
        lambda changes: changes.append(("spec",), 1, **acmes.WHY),
        lambda changes: changes.set(("spec", "x"), 1, rule=None, reason="r"),
        lambda changes: changes.set(("spec", "x"), 1, rule="r", reason=["r"]),
        lambda changes: changes.report("a warning"),
        lambda changes: changes.report(None),
        lambda changes: setattr(changes, "findings", None),
        lambda changes: setattr(changes, "document", {"kind": "Pod"}),
        lambda changes: setattr(changes, "original", {}),
        lambda changes: changes._recorded.append("rubbish"),
        lambda changes: changes._recorded.clear() if changes.set(("spec", "x"), 1, **acmes.WHY) is None else None,
    ],
)
def test_rubbish_on_the_record_is_the_strategys_failure_and_nothing_is_patched(call):
    decision = acmes.decide(acmes.acme(enforce_claims=lambda _, changes: call(changes)))
    assert decision.verdict == "error"
    assert decision.message.startswith(f"strategy 'acme' ({acmes.ORIGIN}) failed in ")
    assert decision.document == acmes.JOB


# --- it writes where it may only read ---------------------------------------------------------------------------


def into_the_original(job, changes):
    job.document["spec"]["trainer"]["command"] = ["mine"]


def into_a_list(job, changes):
    job.document["spec"]["trainer"]["env"].append({"name": "B"})


def into_what_was_copied(job, changes):
    changes.set(("spec", "trainer", "numNodes"), 2, **acmes.WHY)
    job.document["spec"]["trainer"]["command"] = ["mine"]


def by_deleting(job, changes):
    del job.document["metadata"]["namespace"]


def through_get(job, changes):
    changes.get("spec", "trainer")["image"] = "mine"


@pytest.mark.parametrize(
    "write", [into_the_original, into_a_list, into_what_was_copied, by_deleting, through_get], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("stage", ["enforce_command", "enforce_claims"])
def test_a_strategy_that_edits_the_document_is_found_out(write, stage):
    document = copy.deepcopy(acmes.JOB)
    policy = admissions.policy_with(acmes.acme(**{stage: write}))
    decision = admissions.decide(document, acmes.RUNTIME, policy=policy)
    assert decision.verdict == "error"
    assert "it wrote into the job's document" in decision.message
    assert decision.request.document == document == acmes.JOB


@pytest.mark.parametrize("stage", acmes.STAGES)
def test_what_governs_other_jobs_too_cannot_be_spoilt(stage):
    def spoil(job, *_):
        job.runtime.document["spec"].clear()
        job.owner["spec"].clear()
        spoilt.append(stage)
        return []

    spoilt = []
    runtime = copy.deepcopy(acmes.RUNTIME)
    owner = {**copy.deepcopy(acmes.JOB), "metadata": {**acmes.JOB["metadata"], "uid": jobs.UID}}
    policy = admissions.policy_with(acmes.acme(**{stage: spoil}))
    jobset = upstream.build_jobset(owner, acmes.RUNTIME)
    admissions.decide(jobset, runtime, owner, policy=policy, phase=acmes.phase_of(stage))
    assert spoilt == [stage]
    assert (runtime["spec"], owner["spec"]) == (acmes.RUNTIME["spec"], acmes.JOB["spec"])


def test_edits_during_validation_reach_nobody():
    def validate(job):
        job.document["spec"].clear()
        job.changes.set(("spec", "x"), 1, **acmes.WHY)
        return []

    decision = acmes.decide(acmes.acme(validate=validate), "validate")
    assert (decision.verdict, decision.request.document, [*decision.changes]) == ("allowed", acmes.JOB, [])


def test_a_strategy_that_behaves_is_patched_and_remembered():
    decision = acmes.decide(acmes.acme())
    assert decision.verdict == "patched"
    assert decision.document["spec"]["trainer"]["command"] == ["acme", "run", "--well"]
    assert '"strategy":"acme","version":"7"' in decision.document["metadata"]["annotations"]["muster.dev/applied"]
