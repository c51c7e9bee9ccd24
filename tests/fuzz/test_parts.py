"""The parts of the fuzzer that its findings rest on."""

from __future__ import annotations

import copy
import random

import jsonpatch
import pytest
from hypothesis import given

from muster.strategies.documents import names
from tests.fuzz import cases, drawing, invariants, mutations, patches, planting, services, trials, values
from tests.support import admissions, generated, jobs

REFUSED = (
    [{"op": "replace", "path": "/a", "value": 1}],
    [{"op": "remove", "path": "/l/2"}],
    [{"op": "add", "path": "/l/01", "value": 1}],
    [{"op": "add", "path": "/x/y", "value": 1}],
    [{"op": "add", "path": "/l/0"}],
    {"op": "add"},
)


@given(generated.documents(), generated.documents())
def test_a_patch_leads_where_the_other_library_says(before, after):
    operations = jsonpatch.make_patch(before, after).patch
    plain = [each for each in operations if each["op"] in ("add", "replace", "remove")]
    if len(plain) == len(operations):
        kept = copy.deepcopy(before)
        assert patches.applied(before, operations) == after
        assert before == kept


@pytest.mark.parametrize("operations", REFUSED, ids=str)
def test_a_patch_that_names_no_place_is_refused(operations):
    with pytest.raises(patches.PatchError):
        patches.applied({"l": [1, 2]}, operations)


def test_a_case_depends_on_its_number_alone():
    first = [drawing.draw("t", number) for number in (3, 4, 5)]

    assert drawing.draw("t", 4).name == first[1].name
    assert len({each.name for each in first}) == 3


def test_every_annotation_and_label_of_musters_is_among_what_is_edited():
    named = {value for value in vars(names).values() if isinstance(value, str) and value.startswith("muster.dev/")}
    assert {each for each in named if len(each) > len("muster.dev/")} - {names.SEAT_GATE} <= set(values.ANNOTATIONS)


def test_trainings_with_samplers_are_among_the_cases_and_stay_so():
    story = [drawing.draw("t", number) for number in range(800)]
    ways = "\n".join(line for case in story for line in case.how)
    assert "_samplers".strip("_") in ways
    assert {"support/sampled", "support/rivals", "support/adapters"} <= {case.how[1] for case in story}
    planted = {way.partition(":")[0] for case in story for way in case.planted.values()}
    assert {"into_url", "into_json", "into_args", "into_env"} <= planted


def test_a_case_is_the_same_when_it_is_read_again(tmp_path):
    case = drawing.draw("t", 6)

    assert cases.load(cases.save(case, tmp_path)) == case


def test_what_json_cannot_hold_is_sent_as_it_was_meant():
    body = cases.body_of({"a": cases.raw("9" * 30), "b": cases.raw(r'"\ud800"'), "c": "x"})

    assert body == b'{"a":' + b"9" * 30 + rb',"b":"\ud800","c":"x"}'


def test_a_planted_name_does_not_hide_that_another_value_is_a_secret():
    for seed in range(300):
        document = {"metadata": {}, "env": [{"name": "HF_TOKEN", "value": "x"}]}
        planting.plant(random.Random(seed), document, mutations.places(document))
        assert all(each["name"] == "HF_TOKEN" for each in document["env"] if each["value"] == "x")


@pytest.mark.parametrize("part", [slice(0, 14), slice(20, 34), slice(0, 34)], ids=str)
def test_half_a_secret_is_a_leak(part):
    secret = "abcdefghijklmnopqrstuvwxyz01234567"

    assert planting.leaks(secret, f"x {secret[part]} y".encode())
    assert not planting.leaks(secret, secret[:13].encode())


def test_a_plain_job_is_answered_without_a_socket_and_breaks_nothing():
    trainjob = jobs.make_trainjob(command=["trl", "sft"], numNodes=2)
    case = cases.Case("TrainJob", admissions.make_review(trainjob), list(jobs.shipped_runtimes().values()))
    with services.Service() as service:
        story = trials.run(service, case)

    assert [each.status for each in story.exchanges] == [200] * 4
    assert [len(each.lines) for each in story.exchanges] == [1] * 4
    assert not invariants.faults(story, invariants.COUNTED)
