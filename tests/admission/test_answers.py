from __future__ import annotations

import json
import string

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.audit import known
from muster.strategies import error, note, warning
from muster.strategies.changes.changes import Changes
from muster.webhook.admission import answers, reviews
from muster.webhook.admission.answers import answer
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.cluster.memory import InMemoryReader
from tests.support import admissions, jobs, limits, plugins

WHY = {"rule": "test/rule", "reason": "because"}
REQUEST = reviews.parse(orjson.dumps(admissions.make_review(jobs.make_trainjob())), "mutate")


def decided(verdict="allowed", *, findings=(), changes=None, allowed=True, mode=Mode.ENFORCE, message=""):
    changes = Changes({}) if changes is None else changes
    return Decision(REQUEST, verdict, allowed, changes, tuple(findings), mode, message=message)


def many(count, **member):
    return [warning(f"spec.f{number}", number, "look at this", rule="r") for number in range(count)]


def test_a_denial_lists_every_error_with_its_cause():
    found = [
        error("spec.trainer.numNodes", 0, "must be at least 1", rule="a"),
        warning("spec.x", 1, "is odd", rule="b"),
        error("spec.runtimeRef.name", None, "is required", rule="c"),
    ]
    response = answer(decided("denied", findings=found, allowed=False))
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"], status["status"]) == (422, "Invalid", "Failure")
    assert status["message"] == (
        "2 errors:\n- spec.trainer.numNodes: 0: must be at least 1\n- spec.runtimeRef.name: is required"
    )
    assert status["details"]["causes"] == [
        {
            "field": "spec.trainer.numNodes",
            "message": "Invalid value: 0: must be at least 1 (muster a)",
            "reason": "FieldValueInvalid",
        },
        {
            "field": "spec.runtimeRef.name",
            "message": "Required value: is required (muster c)",
            "reason": "FieldValueRequired",
        },
    ]
    assert status["details"]["kind"] == "TrainJob"
    assert response["warnings"] == ["spec.x: 1: is odd"]


@pytest.mark.parametrize("mode", [Mode.ENFORCE, Mode.WARN, Mode.AUDIT])
def test_kubectl_never_shows_a_note(mode):
    assert "warnings" not in answer(decided(findings=[note("spec.x", 1, "cannot be seen", rule="b")], mode=mode))


def test_a_single_error_stands_alone():
    response = answer(decided("denied", findings=[error("spec.x", "v", "is wrong", rule="a")], allowed=False))
    assert response["status"]["message"] == "spec.x: 'v': is wrong"


def test_a_job_with_many_mistakes_is_told_all_of_them():
    job = jobs.make_trainjob(
        "Not_a_name",
        command=["trl", "sft"],
        args=["--learning_rte=1", "--bf16", "--fp16"],
        numNodes=0,
        numProcPerNode=-1,
    )
    job["spec"]["trainer"]["env"] = [{"name": "PET_NNODES", "value": "2"}]
    causes = admissions.respond(job, jobs.make_runtime(), phase="validate")["status"]["details"]["causes"]
    fields = {cause["field"] for cause in causes}
    assert fields >= {
        "metadata.name",
        "spec.trainer.numNodes",
        "spec.trainer.numProcPerNode",
        "spec.trainer.env[PET_NNODES]",
    }
    assert any(field.startswith("spec.trainer.args") for field in fields)


@pytest.mark.parametrize("character", ["x", "\\", '"', "\x7f", "é", "\ud800"], ids=ascii)
@pytest.mark.parametrize("length", [1, 100, 900, 5000])
def test_an_answer_is_bounded_with_every_error_in_its_message_and_among_its_causes(character, length):
    found = [error(f"spec.f{number}", character * length, character * length, rule="r") for number in range(300)]
    response = answer(decided("denied", findings=found, allowed=False))
    assert len(json.dumps(response, ensure_ascii=False).encode("utf-8", "replace")) <= 64 * 1024
    told = response["status"]["details"]["causes"]
    assert told
    assert f"and {300 - len(told)} more" in response["status"]["message"]


@pytest.mark.parametrize("count", [1, 19, 20, 21, 500])
def test_warnings_are_few_and_the_rest_is_counted(count):
    shown = answer(decided(findings=many(count)))["warnings"]
    assert len(shown) == min(count, 21)
    if count > 20:
        assert shown[-1] == f"and {count - 20} more; see muster check or the audit log"


@limits.SOME
@given(st.text(max_size=300), st.text(max_size=300), st.text(max_size=300))
def test_a_warning_is_one_printable_line_of_limited_length(field, value, message):
    """The API server drops a warning with a control character in it without a word."""
    (line,) = answer(decided(findings=[warning(field, value, message, rule="r")]))["warnings"]
    assert len(line) <= answers.MAX_WARNING
    assert line.isprintable()


def test_all_warnings_together_stay_below_what_the_api_server_passes_on():
    shown = answer(decided(findings=[warning(f"spec.x{each}", None, "long " * 100, rule="r") for each in range(99)]))
    assert sum(map(len, shown["warnings"])) <= 4096


@pytest.mark.parametrize(("length", "shown"), [(189, 189), (190, 190), (191, 190), (999, 190)])
def test_a_warning_of_more_than_190_characters_is_cut_visibly(length, shown):
    said = len(str(warning("spec.x", None, "", rule="r")))
    (line,) = answer(decided(findings=[warning("spec.x", None, "m" * (length - said), rule="r")]))["warnings"]
    assert (len(line), line.endswith("…")) == (shown, length > shown)


def changed(count, character="x", length=1):
    document = {"spec": {"env": []}}
    changes = Changes(document)
    for number in range(count):
        changes.append(("spec", "env"), {"name": f"E{number}{character * length}", "value": "1"}, **WHY)
    return changes


def size(notes):
    return len(orjson.dumps(notes))


@pytest.mark.parametrize("character", ["x", "é", '"', "\\", "\x00", "\U0001f600"])
@pytest.mark.parametrize(("count", "length"), [(500, 1), (500, 60), (200, 500)])
def test_audit_annotations_stay_below_their_limit_whatever_is_in_them(character, count, length):
    decision = decided("patched", changes=changed(count, character, length), message=character * 50_000)
    notes = answer(decision)["auditAnnotations"]
    assert size(notes) <= answers.MAX_AUDIT
    assert notes["changes"].startswith("spec.env[")
    assert notes["changes"].endswith("…")
    assert notes["decision"] == "patched"


def test_audit_annotations_are_bounded_for_a_strategy_with_a_long_version_too():
    wordy = plugins.make_strategy("trl", "1" * 50_000, enforce_command=lambda _, c: c.set(("spec", "x"), 1, **WHY))
    response = admissions.respond(jobs.make_trainjob(), jobs.make_runtime(), policy=admissions.policy_with(wordy))
    assert size(response["auditAnnotations"]) <= answers.MAX_AUDIT


def test_few_changes_are_named_in_full():
    changes = changed(1)
    changes.append(("spec", "env"), {"name": "MASTER_PORT", "value": "1"}, **WHY)
    notes = answer(decided("patched", changes=changes))["auditAnnotations"]
    assert notes["changes"] == f"spec.env[{known.hashed('E0x')}] (test/rule), spec.env[MASTER_PORT] (test/rule)"


def test_five_hundred_changes_are_one_patch():
    changes = changed(500)
    assert len(admissions.patch_of(answer(decided("patched", changes=changes)))) == 500


@pytest.mark.parametrize("verdict", ["unchanged", "allowed"])
def test_what_is_not_patched_carries_no_patch(verdict):
    response = answer(decided(verdict, changes=changed(3)))
    assert "patch" not in response
    assert "patchType" not in response


def test_a_failed_decision_that_denies_says_what_failed_and_what_to_do():
    response = answer(decided("error", allowed=False, message="strategy 'x' (pkg) failed in validate: boom"))
    assert response["status"]["code"] == 500
    assert response["status"]["message"].startswith("strategy 'x' (pkg) failed in validate: boom; nothing was changed")


def test_every_answer_carries_the_uid_of_its_request():
    for verdict in ("patched", "unchanged", "allowed", "denied", "error", "skipped"):
        assert answer(decided(verdict))["uid"] == admissions.UID


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_deletions_pass_at_once(operation, phase):
    review = admissions.make_review(jobs.make_trainjob(), operation, jobs.make_trainjob(), object=None)
    request = reviews.parse(orjson.dumps(review), phase)
    decision = admissions.decisions.evaluate(request, InMemoryReader(), Policy(registry=admissions.POLICY.registry))
    assert answer(decision) == {"uid": admissions.UID, "allowed": True}


def skipped(**request):
    response = admissions.respond(
        jobs.make_trainjob(command=["trl", "sft"], numNodes=2), jobs.make_runtime(), **request
    )
    assert response == {"uid": admissions.UID, "allowed": True}


def test_other_kinds_groups_and_subresources_pass_untouched():
    skipped(kind="Pod")
    skipped(kind="CronJob")
    for group in ("example.org", "kubeflow.org"):
        review = admissions.make_review(jobs.make_trainjob(command=["trl", "sft"], numNodes=2))
        review["request"]["kind"]["group"] = group
        request = reviews.parse(orjson.dumps(review), "mutate")
        assert admissions.decisions.evaluate(request, InMemoryReader(), admissions.POLICY).verdict == "skipped"
    skipped(subResource="status")


def test_a_dry_run_gets_the_same_answer():
    job, runtime = jobs.make_trainjob(command=["trl", "sft"], numNodes=2), jobs.make_runtime()
    assert admissions.respond(job, runtime, dryRun=True) == admissions.respond(job, runtime)


def test_printable_text_is_not_altered():
    plain = string.ascii_letters + string.digits + " .,:;'()[]{}-_/é日本"
    assert answer(decided(findings=[warning("f", None, plain, rule="r")]))["warnings"] == [f"f: {plain}"]
