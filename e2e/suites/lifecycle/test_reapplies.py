"""People send their file again: nothing changes, nothing is refused, and `kubectl diff` has nothing to say."""

from __future__ import annotations

import pytest

from e2e.suites.lifecycle import cases, lives, scenes
from e2e.suites.lifecycle.lives import Life
from e2e.suites.support import documents, kubectls, thorough, waits
from e2e.suites.support.spaces import JOBSETS

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def apply(space, document):
    return space.apply(document)


def apply_server_side(space, document):
    return space.apply(document, server_side=True)


def force(space, document):
    return space.apply(document, server_side=True, options=("--force-conflicts",))


def replace(space, document):
    """`kubectl replace` reads and writes, so a controller's write of the status in between is a conflict to repeat."""
    return lives.edit(document["metadata"]["name"], lambda: space.kubectl.replace(document, namespace=space.name))


ALL = {way.__name__: way for way in (apply, apply_server_side, force, replace)}
# What Muster replaced is in conflict with the file as soon as another field manager than the first one applies it.
CREATED = {
    f"{create.__name__}-{way.__name__}": (create, way)
    for create in (apply, apply_server_side)
    for way in ALL.values()
    if (create, way) != (apply, apply_server_side)
}
DIFFED = ["trl with a preset of accelerate", "torchtune", "torch without a trainer section"]
each_way = pytest.mark.parametrize("how", thorough.but_named("apply_server_side-apply_server_side", of=CREATED))


def diff(space, document, *options):
    return space.kubectl.run("diff", "-n", space.name, *options, "-f", "-", stdin=kubectls.stream((document,)))


def seen(trainjob):
    """A stored object, less what every write changes."""
    annotations = {**trainjob["metadata"].get("annotations", {}), LAST_APPLIED: None}
    return {"spec": trainjob["spec"], "labels": trainjob["metadata"].get("labels", {}), "annotations": annotations}


@pytest.mark.parametrize("case", thorough.but_named("trl", of=cases.CASES))
def test_the_file_of_a_suspended_job_is_sent_again_in_every_way(space, installation, case):
    job = case.job(suspend=True)
    lives.submit(space, case.runtime, job, apply_server_side)
    life = Life(space, "life", installation)
    stored = seen(life.wait("suspended").trainjob)
    for way in (apply_server_side, force, replace, apply, force):
        way(space, job).expect()
        assert seen(space.trainjob("life")) == stored
    life.poke(1)
    life.resume()


@each_way
def test_the_file_of_a_running_job_is_sent_again(space, installation, how):
    create, way = how
    case = cases.CASES["trl with a preset of accelerate"]
    lives.submit(space, case.runtime, case.job(), create)
    life = Life(space, "life", installation)
    stored = seen(life.wait("running").trainjob)
    for _ in range(2):
        way(space, case.job()).expect()
        assert seen(space.trainjob("life")) == stored
    life.suspend()
    way(space, case.job(suspend=True)).expect()
    life.poke(1)
    life.resume()
    life.delete()


@pytest.mark.parametrize("name", thorough.but("torchtune", of=DIFFED))
@pytest.mark.parametrize("create", [apply, apply_server_side])
def test_there_is_nothing_to_see_in_a_diff(space, create, name):
    case = cases.CASES[name]
    lives.submit(space, case.runtime, case.job(suspend=True), create)
    Life(space, "life").wait("suspended")
    options = () if create is apply else ("--server-side",)
    # A status that is written between the two reads of a diff is in it.
    outcome = waits.until("an empty diff", lambda: diff(space, case.job(suspend=True), *options).expect())
    assert outcome.out == ""
    assert "suspend" in diff(space, case.job(suspend=False), *options).out


@pytest.mark.parametrize("name", thorough.but("trl", of=["trl", "torchtune"]))
def test_a_change_of_the_field_manager_is_a_conflict_of_the_api_and_can_be_forced(space, installation, name):
    """The API server compares with what is stored before it asks any webhook; without Muster the values are equal."""
    case = cases.CASES[name]
    lives.submit(space, case.runtime, case.job(suspend=True), apply)
    life = Life(space, "life", installation)
    stored = seen(life.wait("suspended").trainjob)
    outcome = space.apply(case.job(suspend=True), server_side=True)
    assert outcome.refused_with("conflict", ".spec.trainer.command", "--force-conflicts"), outcome
    assert seen(space.trainjob("life")) == stored
    for way in (force, apply_server_side):
        way(space, case.job(suspend=True)).expect()
        assert seen(space.trainjob("life")) == stored
    life.turn()


def test_a_file_without_a_word_about_suspension_does_not_resume_a_job_that_the_queue_suspended(space, installation):
    case = cases.CASES["trl"]
    lives.submit(space, case.runtime, case.job(), apply)
    life = Life(space, "life", installation)
    life.wait("running")
    life.suspend()
    apply(space, case.job()).expect()
    life.poke(1)


@each_way
def test_the_file_of_a_jobset_is_sent_again(space, how):
    create, way = how
    arguments = ["--model_name_or_path", "m", "--dataset_name", "d"]
    gpu = {"limits": {"nvidia.com/gpu": "1"}}
    jobset = documents.jobset("life", "trl", nodes=2, command=["trl", "sft", *arguments], resources=gpu)
    # JobSet sets its defaults at creation only: a file without them is refused when it comes again, and one replaced
    # without a network makes its controller panic, both also without Muster.
    jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["completionMode"] = "Indexed"
    jobset["spec"]["network"] = {"enableDNSHostnames": True, "publishNotReadyAddresses": True}
    create(space, jobset).expect()
    made = lives.frozen(scenes.wait(space, "life", "running").jobset)
    assert made["applied"]
    for _ in range(2):
        way(space, jobset).expect()
        assert lives.frozen(space.jobset("life")) == made
    space.patch(JOBSETS, "life", {"spec": {"suspend": True}}).expect()
    scenes.wait(space, "life", "suspended")
