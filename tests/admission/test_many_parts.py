"""A JobSet of very many replicated jobs is answered, in time, with what can be done about it."""

from __future__ import annotations

import copy
import itertools
import sys

import orjson
import pytest

from bench import largest
from muster.webhook.admission import decisions, reviews
from tests.support import admissions, jobs


def made(count, command, framework, **labels):
    jobset = jobs.make_jobset("many", framework=framework, container={"command": command})
    (one,) = jobset["spec"]["replicatedJobs"]
    pod = one["template"]["spec"]["template"]["spec"]
    pod["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "2"}}
    one["template"].setdefault("metadata", {}).setdefault("labels", {}).update(labels)
    copies = [copy.deepcopy(one) for _ in range(count)]
    for number, each in enumerate(copies):
        each["name"] = f"worker-{number}" if number else "leader"
    jobset["spec"]["replicatedJobs"] = copies
    return jobset


def training(count):
    return made(count, ["torchrun", "--nproc_per_node=2", "train.py"], "torch", **{"muster.dev/role": "trainer"})


def test_a_training_of_as_many_parts_as_are_changed_is_patched():
    assert admissions.decide(training(32)).verdict == "patched"


@pytest.mark.parametrize("count", [33, 300])
def test_a_training_of_more_is_left_as_it_is_and_says_so(count):
    decision = admissions.decide(training(count))
    assert (decision.verdict, [each.rule for each in decision.findings]) == ("unchanged", ["core/many-parts"])
    assert admissions.decide(training(count), phase="validate").allowed


def test_more_changes_than_an_update_can_restore_are_refused_as_the_job_and_not_as_a_failure():
    decision = admissions.decide(made(128, ["vllm", "serve", "m"], "vllm"))
    assert (decision.verdict, [each.rule for each in decision.findings]) == ("denied", ["core/too-many-changes"])
    assert admissions.respond(made(128, ["vllm", "serve", "m"], "vllm"))["status"]["code"] == 422


def test_what_cannot_be_restored_is_not_computed_to_its_end():
    few, many = (admissions.decide(made(count, ["vllm", "serve", "m"], "vllm")) for count in (300, 500))
    assert [each.value for each in few.findings] == [each.value for each in many.findings]


def called(count):
    """How often functions, and steps of generators, are called for a mutation of so many servers with claims."""
    document, calls = largest.made("replicated jobs, vllm, 2 claims each", count), itertools.count()
    body = orjson.dumps(admissions.make_review(document.document))
    request, reader = reviews.parse(body, "mutate"), admissions.make_reader(*document.cluster)
    sys.setprofile(lambda _frame, event, _argument: event == "call" and next(calls))
    try:
        decisions.evaluate(request, reader, document.policy)
    finally:
        sys.setprofile(None)
    return next(calls)


def test_what_is_found_out_about_one_server_costs_the_same_whatever_stands_beside_it():
    called(50)  # what is remembered of texts is remembered then
    first, second, third = map(called, (50, 100, 200))
    assert third - second < 2.2 * (second - first)


def test_servers_of_their_own_are_changed_as_far_as_an_update_can_restore_them():
    assert admissions.decide(made(60, ["vllm", "serve", "m"], "vllm")).verdict == "patched"


@pytest.mark.parametrize("phase", ["mutate", "validate"])
def test_a_jobset_without_a_spec_is_answered(phase):
    jobset = jobs.make_jobset("empty", framework="torch")
    del jobset["spec"]
    assert admissions.decide(jobset, phase=phase).verdict != "error"
