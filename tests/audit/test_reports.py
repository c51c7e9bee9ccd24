"""What reports say: results from records, folded into what is there, within limits and without secrets."""

from __future__ import annotations

import datetime

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from muster.audit import known, record_schema
from muster.webhook.notices import outcomes, report_objects
from tests.audit import conftest

NOW = datetime.datetime(2026, 3, 1, 9, 0, tzinfo=datetime.UTC).timestamp()
SECRET = "hf_" + "s3cr3tS3CR3T" * 3
RULES = ("trl/launch", "trl/env", "core/numbers", "core/applied", "plain")
LIMITS = report_objects.Limits(results=5, seconds=3600, octets=4096)


def at(seconds):
    """A moment so many seconds before `NOW`."""
    return record_schema.timestamp(datetime.datetime.fromtimestamp(NOW - seconds, tz=datetime.UTC))


def denied(make_finding, **fields):
    finding = {**make_finding("spec.trainer.numNodes", 0, "must be 1 or more"), "severity": "error"}
    return {"decision": "denied", "phase": "validate", "findings": [finding], "time": at(0), **fields}


@pytest.fixture
def told(make_record):
    """The results of a record with such members."""

    def tell(**fields):
        return outcomes.said(make_record(**{"time": at(0), **fields}))

    return tell


def shown(results):
    return [(each["result"], each["rule"], each["message"]) for each in results]


def test_a_denial_is_a_failure_with_its_rule_field_and_reason(told, make_finding):
    (result,) = told(**denied(make_finding)).results
    assert shown([result]) == [("fail", "trl/env", "spec.trainer.numNodes: must be 1 or more")]
    assert (result["policy"], result["severity"], result["scored"]) == ("trl", "high", True)
    assert result["resources"] == [
        {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "namespace": "team-a", "name": "sft"}
    ]
    assert result["properties"]["decision"] == "denied"
    assert result["properties"]["uid"] == "705ab4f5-6393-11e8-b7cc-42010a800002"


def test_a_warning_is_a_warning_and_is_not_scored(told, make_finding):
    (result,) = told(decision="allowed", phase="validate", findings=[make_finding("spec.x", 1)]).results
    assert (result["result"], result["severity"], result["scored"]) == ("warn", "medium", False)


def test_a_note_is_not_told_and_a_job_with_notes_alone_is_not_listed(told, make_record, make_finding):
    note = {**make_finding("spec.x", 1), "severity": "note"}
    warned = {"decision": "allowed", "phase": "validate", "findings": [note, make_finding("spec.y", 1)]}
    assert [each[0] for each in shown(told(**warned).results)] == ["warn"]
    assert outcomes.weight(make_record(decision="allowed", phase="validate", findings=[note])) == 0


def test_corrections_are_passes_one_for_each_rule_without_the_values(told, make_change):
    changes = [
        make_change("spec.trainer.command", before=["trl", "sft"], after=["torchrun"]),
        make_change("spec.trainer.args", before=["--a"], after=["--b"]),
        {**make_change("spec.trainer.env[A]", after="1"), "rule": "trl/env", "reason": "is read by all ranks"},
        {**make_change("metadata.annotations", after={}), "rule": "core/applied"},
    ]
    results = told(changes=changes).results
    assert shown(results) == [
        ("pass", "trl/launch", "spec.trainer.command, spec.trainer.args: all ranks must meet"),
        ("pass", "trl/env", "spec.trainer.env[A]: is read by all ranks"),
    ]
    assert b"torchrun" not in orjson.dumps(results)


def test_what_a_mode_left_uncorrected_is_a_warning(told, make_change):
    (result,) = told(decision="unchanged", mode="warn", changes=[make_change(after={})]).results
    assert shown([result]) == [
        ("warn", "trl/launch", "not corrected in mode warn: spec.trainer: all ranks must meet"),
    ]


def test_what_a_mode_did_not_deny_is_a_failure_all_the_same(told, make_finding):
    (result,) = told(**denied(make_finding, decision="allowed", mode="audit")).results
    assert (result["result"], result["properties"]["decision"], result["properties"]["mode"]) == (
        "fail",
        "allowed",
        "audit",
    )


def test_a_strategy_that_failed_is_an_error(told):
    (result,) = told(decision="error", message="strategy x took too long").results
    assert shown([result]) == [("error", "core/error", "strategy x took too long")]


def test_a_misfit_is_told_by_validation_alone(told, make_finding):
    misfit = {**make_finding("spec.trainer", 1), "severity": "error", "rule": "core/shape"}
    assert told(decision="unchanged", findings=[misfit]).results == ()
    assert len(told(decision="denied", phase="validate", findings=[misfit]).results) == 1


def test_a_job_without_a_name_yet_is_called_by_its_prefix(told, make_finding):
    about = {"kind": "TrainJob", "namespace": "team-a", "name": "", "generateName": "sweep-"}
    assert told(**denied(make_finding, object=about)).about.name == "sweep-*"


def test_results_of_two_namespaces_or_kinds_are_never_taken_for_one(told, make_finding):
    about = [("TrainJob", "a"), ("TrainJob", "b"), ("JobSet", "a")]
    made = [
        told(**denied(make_finding, object={"kind": kind, "namespace": space, "name": "x"})).results[0]
        for kind, space in about
    ]
    assert len({each["properties"]["resultID"] for each in made}) == 3
    again = told(**denied(make_finding, object={"kind": "JobSet", "namespace": "a", "name": "x"}, time=at(-9)))
    assert again.results[0]["properties"]["resultID"] == made[-1]["properties"]["resultID"]


def test_a_job_that_was_put_right_is_no_failure_any_more(told, make_finding):
    before = report_objects.folded([], [told(**denied(make_finding, time=at(9)))], LIMITS, NOW)
    assert report_objects.summary(before)["fail"] == 1
    assert report_objects.folded(before, [told(decision="allowed", phase="validate", time=at(5))], LIMITS, NOW) == []


def test_the_second_call_of_an_admission_does_not_take_back_what_the_first_said(told, make_change):
    first = told(changes=[make_change(after={})], time=at(9))
    second = told(decision="unchanged", time=at(8))
    assert report_objects.folded([], [first, second], LIMITS, NOW) == list(first.results)


def test_of_a_job_that_was_denied_no_corrections_are_told_until_it_comes_again(told, make_change, make_finding):
    mended, refused = told(changes=[make_change(after={})], time=at(9)), told(**denied(make_finding, time=at(8)))
    assert report_objects.folded([], [mended, refused], LIMITS, NOW) == list(refused.results)
    assert report_objects.folded(refused.results, [mended], LIMITS, NOW) == list(refused.results)
    again = told(changes=[make_change(after={})], time=at(5))
    assert report_objects.folded(refused.results, [again], LIMITS, NOW) == [*again.results, *refused.results]


def test_an_error_is_over_when_the_same_job_is_decided(told):
    first = told(decision="error", message="x", time=at(9))
    assert report_objects.folded([], [first, told(decision="unchanged", time=at(8))], LIMITS, NOW) == []


def test_an_older_decision_does_not_take_the_place_of_a_newer_one(told, make_finding):
    newer = report_objects.folded([], [told(**denied(make_finding, time=at(1)))], LIMITS, NOW)
    older = told(decision="allowed", phase="validate", time=at(5))
    assert report_objects.folded(newer, [older], LIMITS, NOW) == newer


def test_what_is_too_old_is_left_out(told, make_finding):
    said = [told(**denied(make_finding, time=at(seconds))) for seconds in (3601,)]
    assert report_objects.folded([], said, LIMITS, NOW) == []


def test_corrections_make_room_for_problems_and_older_ones_for_newer(told, make_change, make_finding):
    def job(number):
        return {"object": {"kind": "TrainJob", "namespace": "team-a", "name": f"job-{number}"}}

    passes = [told(changes=[make_change(after={})], time=at(number), **job(number)) for number in range(9)]
    fails = [told(**denied(make_finding, time=at(number), **job(number))) for number in range(50, 53)]
    results = report_objects.folded([], [*passes, *fails], LIMITS, NOW)
    assert [each["resources"][0]["name"] for each in results] == ["job-0", "job-1", "job-50", "job-51", "job-52"]


@pytest.mark.parametrize(
    "stranger",
    [None, 1, {}, {"source": "muster"}, {"source": "kyverno", "policy": "x", "result": "fail"}, ["x"]],
)
def test_what_others_wrote_into_the_report_does_not_stay(told, make_finding, stranger):
    ours = report_objects.folded([], [told(**denied(make_finding))], LIMITS, NOW)
    assert report_objects.folded([stranger, *ours], [], LIMITS, NOW) == ours


def test_the_formats_differ_in_name_and_source_only():
    made = {name: report_objects.rendered(form, None, "team-a", [], 9) for name, form in report_objects.FORMATS.items()}
    assert made["openreports"]["apiVersion"] == "openreports.io/v1alpha1"
    assert made["policyreport"]["apiVersion"] == "wgpolicyk8s.io/v1alpha2"
    assert set(made["openreports"]) - set(made["policyreport"]) == {"source", "configuration"}
    for each in made.values():
        assert each["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "muster"}
        assert each["summary"] == {"pass": 0, "fail": 0, "warn": 0, "error": 0, "skip": 0}


words = some.text(some.characters(codec="utf-8"), max_size=20)
findings = some.fixed_dictionaries(
    {
        "severity": some.sampled_from(["error", "warning"]),
        "field": words,
        "value": some.sampled_from([SECRET, 1, None]),
        "message": some.one_of(words, some.just(f"unknown flag --hub_token={SECRET}")),
        "rule": some.sampled_from(RULES),
    }
)
changes = some.fixed_dictionaries(
    {
        "op": some.just("add"),
        "path": some.just("/spec/trainer/env/0"),
        "field": some.one_of(words, some.just("spec.trainer.env[HF_TOKEN]")),
        "after": some.just({"name": "HF_TOKEN", "value": SECRET}),
        "rule": some.sampled_from(RULES),
        "reason": some.one_of(words, some.just(f"because of {SECRET}")),
    }
)
cases = some.lists(
    some.builds(
        lambda name, phase, decision, age, found, changed: conftest._record(
            object={"kind": "TrainJob", "namespace": "team-a", "name": name},
            phase=phase,
            decision=decision,
            time=at(age),
            findings=found,
            changes=changed,
            **({"message": f"failed with {SECRET}"} if decision == "error" else {}),
        ),
        some.sampled_from(["a", "b", "c" * 300, ""]),
        some.sampled_from(["mutate", "validate"]),
        some.sampled_from(["patched", "unchanged", "allowed", "denied", "error"]),
        some.sampled_from([0, 1, 2, 3599, 3601]),
        some.lists(findings, max_size=20),
        some.lists(changes, max_size=4),
    ),
    max_size=8,
)


@settings(deadline=None, max_examples=60)
@given(cases, cases, some.randoms(use_true_random=False))
def test_a_report_is_counted_bounded_the_same_again_and_without_secrets(before, after, chance):
    def said(made):
        return [outcomes.said(known.record(each)) for each in made]

    present = report_objects.folded([], said(before), LIMITS, NOW)
    results = report_objects.folded(present, said(after), LIMITS, NOW)
    assert sum(report_objects.summary(results).values()) == len(results) <= LIMITS.results
    raw = orjson.dumps(results)
    assert len(raw) <= LIMITS.octets + 2
    assert SECRET.encode() not in raw
    assert all(each["timestamp"]["seconds"] >= NOW - LIMITS.seconds for each in results)
    assert results == sorted(results, key=lambda each: -each["timestamp"]["seconds"] - each["timestamp"]["nanos"] / 1e9)
    others = [*present]
    chance.shuffle(others)
    assert report_objects.folded(others, said(after), LIMITS, NOW) == results
    stored = orjson.loads(orjson.dumps(results, option=orjson.OPT_SORT_KEYS))
    assert report_objects.folded(stored, [], LIMITS, NOW) == results
