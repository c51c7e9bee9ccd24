"""A placed job in a queue: whatever its runtime says of placement, it suspends, resumes and stays where it belongs."""

from __future__ import annotations

import copy

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.documents import decoding
from muster.strategies.documents.model import Toleration
from muster.strategies.roles import role_additions
from tests.roles import drawn, places
from tests.support import jobs, limits, upstream
from tests.support.worlds import DeniedError, World

TRAINJOB = jobs.make_trainjob(
    metadata={"labels": {places.ROLE: "trainer"}},
    command=["sleep", "1"],
    resourcesPerNode={"limits": {"nvidia.com/gpu": 1}},
)


@limits.MANY
@given(drawn.pods, st.booleans())
def test_no_placement_of_a_runtime_wedges_the_job_or_loses_the_roles(pod, queues):
    world = World(jobs.make_runtime(pod=copy.deepcopy(pod)), policy=places.POLICY)
    try:
        world.create(upstream.suspend(TRAINJOB))
    except DeniedError:
        hypothesis.reject()
    world.reconcile()
    made, theirs = placement_of(world.jobset), [each for each in pod.get("tolerations") or () if is_enough(each)]
    for turn in (copy.deepcopy, upstream.start, upstream.stop, upstream.start, upstream.stop):
        sent = turn(world.trainjob)
        if queues and turn is upstream.start:
            tolerate(sent, {"key": "spot", "operator": "Exists"})
        world.update(sent)
        world.reconcile()
        assert world.jobset["spec"]["suspend"] == world.trainjob["spec"]["suspend"]
        assert placement_of(world.jobset) == made
        assert theirs or places.TAINTED in tolerations_of(world.jobset)


def is_enough(toleration):
    """Whether the runtime tolerates the role's taint itself; that is the runtime's, and a queue may replace it."""
    return role_additions.covers(*(decoding.read(each, Toleration) for each in (toleration, places.TAINTED)))


def tolerate(trainjob, toleration):
    """The queue's flavor brings a toleration, and with it a list of its own."""
    patch = trainjob["spec"]["runtimePatches"][-1]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"][0]
    patch["template"]["spec"]["template"]["spec"]["tolerations"] = [toleration]


def tolerations_of(jobset):
    return places.pod_of(jobset)["spec"].get("tolerations") or []


def placement_of(jobset):
    spec = places.pod_of(jobset)["spec"]
    return copy.deepcopy([spec.get(member) for member in ("affinity", "topologySpreadConstraints")])
