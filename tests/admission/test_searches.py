"""The webhook judges an OptimizationJob by its first and its last trial, and changes nothing in it."""

from __future__ import annotations

import pytest
from msgspec import structs

from muster.strategies.documents import findings
from muster.strategies.trainer import optimization_trials
from muster.webhook.admission.policies import Mode
from tests.support import admissions, jobs, searches


def judged(search, *cluster, **how):
    reader = admissions.shipped_reader(*cluster)
    return admissions.decide(search, phase="validate", reader=reader, **how)


def in_mode(mode):
    return structs.replace(admissions.POLICY, mode=mode)


def told(decision):
    return {each.field: each.message for each in findings.errors(decision.findings)}


def test_a_search_whose_trials_start_is_let_in():
    decision = judged(searches.make(lr=searches.log_uniform("1e-6", "1e-4")))
    assert (decision.verdict, decision.findings) == ("allowed", ())
    assert decision.governor.framework == "trl"


def test_an_error_of_every_trial_is_told_once_with_the_field_of_the_template():
    decision = judged(searches.make("--bogus=1", lr=searches.log_uniform("1e-6", "1e-4")))
    ((field, message),) = told(decision).items()
    assert (decision.verdict, field) == ("denied", "spec.trainJobTemplate.spec.trainer.args[4]")
    assert "a trial" not in message


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (searches.uniform("1", "8", "Int"), "1"),
        (searches.log_uniform("1", "8", "Int"), "1"),
        (searches.choices("8", "1"), "1"),
        (searches.choices("1", "8"), "1"),
    ],
)
def test_an_error_of_one_end_of_a_search_space_names_the_value(space, value):
    decision = judged(searches.make(num_generations=space, learning_rate=searches.log_uniform("1e-6", "1e-4")))
    (message,) = told(decision).values()
    assert message.endswith(f"(in a trial with num_generations={value})")


def test_a_number_without_a_type_is_a_float_as_trainer_draws_it():
    decision = judged(searches.make(num_generations=searches.uniform("2", "8")))
    (message,) = told(decision).values()
    assert "(in a trial with num_generations=2.0)" in message


def test_values_in_the_middle_of_a_list_are_not_tried():
    assert judged(searches.make(num_generations=searches.choices("4", "1", "8"))).verdict == "allowed"


def test_a_reference_that_kubernetes_leaves_alone_stays():
    search = searches.make(num_generations=searches.choices("1"))
    args = search["spec"]["trainJobTemplate"]["spec"]["trainer"]["args"]
    args[-1] = args[-1].replace("$(", "$$(")
    (trial,) = optimization_trials.trials(search)
    assert trial.document["spec"]["trainer"]["args"][-1] == args[-1]


def test_a_trial_is_the_template_with_the_values_in_its_env():
    search = searches.make(lr=searches.uniform("0.1", "1e3"), n=searches.uniform("1", "8", "Int"))
    search["metadata"] = {"generateName": "s" * 80, "namespace": "a"}
    search["spec"]["trainJobTemplate"]["metadata"] = {"labels": {"a": "b"}}
    first, last = optimization_trials.trials(search)
    assert first.values == {"lr": "0.1", "n": "1"}
    assert last.values == {"lr": "1000.0", "n": "8"}
    assert first.document["spec"]["trainer"]["env"] == [
        {"name": "KUBEFLOW_TRAINER_OPT_lr", "value": "0.1"},
        {"name": "KUBEFLOW_TRAINER_OPT_n", "value": "1"},
    ]
    metadata = first.document["metadata"]
    assert (len(metadata["name"]), metadata["labels"], metadata["namespace"]) == (63, {"a": "b"}, "a")
    assert "env" not in search["spec"]["trainJobTemplate"]["spec"]["trainer"]


def test_only_enforce_refuses():
    bad = searches.make("--bogus=1")
    decision = judged(bad, policy=in_mode(Mode.WARN))
    assert (decision.allowed, decision.verdict, len(decision.findings)) == (True, "allowed", 1)
    assert judged(bad, policy=in_mode(Mode.OFF)).verdict == "skipped"
    assert judged(bad, jobs.make_namespace("audit")).mode is Mode.AUDIT


@pytest.mark.parametrize("how", [{"phase": "mutate"}, {"operation": "UPDATE", "old": {}}, {"operation": "DELETE"}])
def test_nothing_but_its_creation_is_looked_at(how):
    decision = admissions.decide(searches.make("--bogus=1"), **{"phase": "validate", **how})
    assert (decision.verdict, decision.allowed) == ("skipped", True)


@pytest.mark.parametrize(
    ("member", "value", "field"),
    [
        ("parameters", 3, "spec.parameters"),
        ("parameters", [{"name": 3}], "spec.parameters[3].name"),
        ("trainJobTemplate", [], "spec.trainJobTemplate"),
        ("trainJobTemplate", {"spec": 3}, "spec.trainJobTemplate.spec"),
    ],
)
def test_a_member_of_another_type_is_an_error_with_its_field(member, value, field):
    search = searches.make()
    search["spec"][member] = value
    assert list(told(judged(search))) == [field]


@pytest.mark.parametrize("trainer", [None, 3, {"env": 3}, {"args": 3}, {"args": [3]}, {"command": "x"}])
def test_a_trainer_of_any_shape_is_judged(trainer):
    search = searches.make(lr=searches.choices("1", "2"))
    search["spec"]["trainJobTemplate"]["spec"]["trainer"] = trainer
    assert all(each.startswith("spec.trainJobTemplate.spec.trainer") for each in told(judged(search)))


@pytest.mark.parametrize("space", [{}, {"uniform": {"min": "a", "max": "b"}}, {"uniform": {}}, {"categorical": {}}])
def test_a_parameter_without_values_leaves_its_references_open(space):
    assert judged(searches.make(num_generations=space)).verdict == "allowed"


def test_a_name_that_leaves_no_room_for_the_name_of_a_trial_is_an_error_of_the_search():
    search = searches.make() | {"metadata": {"name": "s" * 40}}
    ((field, message),) = told(judged(search)).items()
    assert field == "metadata.name"
    assert "too long" in message
