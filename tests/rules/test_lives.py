"""The life of a job in a queue, with Trainer's and JobSet's own rules simulated: Muster must never stand in its way."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import admissions, jobs, limits, merges, plugins, realistic, upstream
from tests.support.worlds import DeniedError, World

WAYS = {way.__name__: way for way in (merges.reapply_server_side, merges.reapply_client_side, merges.replace)}
CLAIM = {"name": "gpus", "resourceClaimTemplateName": "two-gpus"}


def live(world, trainjob):
    """Suspended, poked three times, resumed, suspended, resumed."""
    world.create(upstream.suspend(trainjob))
    for _ in range(3):
        world.reconcile()
        world.update(copy.deepcopy(world.trainjob))
    world.reconcile()
    for turn in ("start", "stop", "start"):
        world.update(getattr(upstream, turn)(world.trainjob))
        world.reconcile()


WHY = {"rule": "test/overwrite", "reason": "because"}
ALL = "all but the reordering"


def overwriting(write):
    """A strategy that does to a JobSet what a mutating webhook should not; only the restore makes it bearable."""

    def enforce(job, changes):
        if job.kind == "JobSet":
            write(changes, job.container.path)

    return plugins.make_strategy("trl", enforce_command=enforce)


def env_at(changes, path):
    return list(changes.get(*path, "env"))


def place_of(name, changes, path):
    return (*path, "env", [entry["name"] for entry in env_at(changes, path)].index(name))


def swap_limit_for_claim(changes, path):
    changes.remove((*path, "resources", "limits", "nvidia.com/gpu"), **WHY)
    changes.set((*path, "resources", "claims"), [{"name": "gpus"}], **WHY)
    changes.append((*path[:-2], "resourceClaims"), CLAIM, **WHY)


OVERWRITES = {
    "nothing": lambda *_: None,
    "append an env": lambda c, path: c.append((*path, "env"), {"name": "NEW", "value": "1"}, **WHY),
    "change an applied env": lambda c, path: c.set((*place_of("PET_NNODES", c, path), "value"), "9", **WHY),
    "delete an applied env": lambda c, path: c.remove(place_of("PET_NNODES", c, path), **WHY),
    "reorder the env": lambda c, path: c.set((*path, "env"), env_at(c, path)[::-1], **WHY),
    "replace the command": lambda c, path: c.set((*path, "command"), ["sleep", "1"], **WHY),
    "add to the args": lambda c, path: c.append((*path, "args"), "--more", **WHY),
    "set what was not set": lambda c, path: c.set((*path, "workingDir"), "/w", **WHY),
    "swap the GPU limit for a claim": swap_limit_for_claim,
    "label the pods": lambda c, path: c.set((*path[:-3], "metadata", "labels", "muster.dev/role"), "trainer", **WHY),
}
TOGETHER = [write for name, write in OVERWRITES.items() if name != "reorder the env"]
OVERWRITES[ALL] = lambda c, path: [write(c, path) for write in TOGETHER]
JOB = jobs.make_trainjob(
    command=["torchrun", "train.py"],
    args=["--a"],
    numNodes=2,
    numProcPerNode=1,
    resourcesPerNode={"limits": {"nvidia.com/gpu": 1}},
    env=[{"name": "MINE", "value": "1"}],
)


@pytest.mark.parametrize("write", OVERWRITES.values(), ids=OVERWRITES)
def test_whatever_was_overwritten_at_create_the_job_suspends_and_resumes(write):
    world = World(jobs.make_runtime(container={"resources": {"limits": {"memory": "8Gi"}}}))
    world.policy = admissions.policy_with(overwriting(write))
    live(world, JOB)
    stored = world.jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    assert stored["nodeSelector"] == {"flavor": "h200"}
    assert world.jobset["spec"]["suspend"] is False


@pytest.mark.parametrize("write", OVERWRITES.values(), ids=OVERWRITES)
def test_another_version_of_muster_answers_updates_with_what_the_first_one_made(write):
    world = World(jobs.make_runtime(container={"resources": {"limits": {"memory": "8Gi"}}}))
    world.policy = admissions.policy_with(overwriting(write))
    world.create(upstream.suspend(JOB))
    world.reconcile()
    made = upstream._frozen(world.jobset, mutable=True)
    world.policy = admissions.policy_with(overwriting(OVERWRITES["replace the command"]))
    for turn in ("start", "stop", "start", "stop"):
        world.update(getattr(upstream, turn)(world.trainjob))
        world.reconcile()
    assert upstream._frozen(world.jobset, mutable=True) == made


def test_pokes_of_a_suspended_job_write_nothing():
    world = World(jobs.make_runtime())
    world.create(upstream.suspend(JOB))
    world.reconcile()
    for _ in range(3):
        world.reconcile()
    assert world.updates == 0


@pytest.mark.parametrize("name", [name for name in OVERWRITES if name not in {"nothing", "label the pods"}])
def test_the_simulated_api_refuses_an_overwrite_that_nobody_restores(name):
    """The scenario is worth something only if it fails without Muster's restore, as it does on a real cluster."""
    world = World(jobs.make_runtime(container={"resources": {"limits": {"memory": "8Gi"}}}))
    world.policy = admissions.policy_with(overwriting(OVERWRITES[name]))
    world.create(upstream.suspend(JOB))
    world.reconcile()
    del world.jobset["metadata"]["annotations"]
    keeps = {"append an env", "set what was not set"}
    if name in keeps:
        world.reconcile()
    else:
        with pytest.raises(DeniedError, match="replicatedJobs must not change"):
            world.reconcile()


@limits.FEW
@given(realistic.cases(), st.sampled_from(sorted(OVERWRITES)))
def test_a_job_that_was_admitted_lives_on_whatever_muster_comes_next(case, write):
    trainjob, runtime = case
    world = World(runtime)
    try:
        world.create(upstream.suspend(trainjob))
    except DeniedError:
        return
    world.reconcile()
    made = copy.deepcopy(world.trainjob["spec"].get("trainer")), upstream._frozen(world.jobset, mutable=True)
    world.policy = admissions.policy_with(overwriting(OVERWRITES[write]))
    for turn in ("start", "stop", "start"):
        world.update(getattr(upstream, turn)(world.trainjob))
        world.reconcile()
    assert (world.trainjob["spec"].get("trainer"), upstream._frozen(world.jobset, mutable=True)) == made


@limits.FEW
@given(realistic.cases(), st.sampled_from(sorted(WAYS)))
def test_the_users_file_can_be_sent_again_at_any_time(case, way):
    trainjob, runtime = case
    world = World(runtime)
    try:
        world.create(trainjob)
    except DeniedError:
        return
    stored = copy.deepcopy(world.trainjob)
    world.reconcile()
    world.update(WAYS[way](world.trainjob, trainjob))
    assert world.trainjob == stored
