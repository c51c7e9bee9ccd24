"""What Muster says about random launches is what an independent model of the launchers says (`launcher_model.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from muster.strategies.documents.findings import Finding, Severity
from muster.strategies.frameworks import builtin
from muster.strategies.trainer import predictions
from muster.webhook.admission.policies import Policy
from muster.webhook.cli import gathering
from muster.webhook.cli.cases import Setup
from muster.webhook.cluster.overlay import Overlay
from muster.webhook.cluster.readers import Ref
from muster.webhook.kubeyaml.sources import Origin, Source
from tests.launchers import drawn_launches, launcher_model
from tests.launchers.launcher_model import Broken, Node, Worlds
from tests.support import jobs
from tests.support.pods import expand, pods

CPUS = 4
WORLD = "MUSTER_EXPECTED_WORLD_SIZE"
RUNTIMES = {"torch": "torch-distributed", "trl": "trl-distributed", "torchtune": "tune"}
# Launches are short, so that none has to be made shorter, which takes longer than all of the test.
few = settings(
    max_examples=400, derandomize=True, phases=[Phase.generate], suppress_health_check=[HealthCheck.too_slow]
)


@dataclass(frozen=True)
class Judged:
    """What Muster says about a launch, and what the model says about the JobSet that follows."""

    findings: list[Finding]
    world: Worlds | Broken
    told: str | None

    @property
    def serious(self):
        return [each for each in self.findings if each.severity is not Severity.NOTE]

    def __str__(self):
        return "\n".join([*map(str, self.findings), f"model: {self.world}", f"told: {self.told}"])


@pytest.fixture(scope="module")
def judge():
    own = Source(Origin("runtimes"), jobs.make_runtime("tune", framework="torchtune"))
    cluster = gathering.gather([own])
    policy = Policy(registry=builtin.load())

    def decide(launch):
        setup = Setup([], [], cluster, policy, "default")
        case = setup.decide(Source(Origin("drawn"), trainjob(launch)))
        following = follow(case, setup)
        found = [*case.findings, *(each for each in following.findings if not case.refused)]
        places = pods(following.document, "node")
        told = places[0].env.get(WORLD)
        written = tuple(case.document["spec"]["trainer"].get("command", launch.written))
        nodes = [inside(each, launch, rewritten(launch, written)) for each in places]
        return Judged(found, launcher_model.outcome(nodes), told)

    return decide


def follow(case, setup):
    """The JobSet that Trainer would make, of a refused TrainJob as well: what it says is compared with the refusal."""
    predicted = predictions.predict(case.document, case.mutated.governor.runtime, case.namespace)
    cluster = Overlay(setup.cluster.reader)
    cluster.put(Ref("TrainJob", case.namespace, predictions.job_name(case.document)), case.document)
    return setup.decide(Source(case.source.origin, predicted.jobset), cluster)


def trainjob(launch):
    limits = {"cpu": CPUS, **({"nvidia.com/gpu": launch.devices} if launch.devices else {})}
    more = {} if launch.processes is None else {"numProcPerNode": launch.processes}
    return jobs.make_trainjob(
        "train", runtime=RUNTIMES[launch.runtime], command=list(launch.written), numNodes=launch.nodes,
        resourcesPerNode={"limits": limits}, metadata={"namespace": "default"}, **more,
    )  # fmt: skip


def rewritten(launch, written):
    """What Muster made of the bare launch: behind wrappers it leaves their words as they are."""
    if written == launch.written:
        return launch.bare
    front = len(launch.written) - len(launch.bare)
    assert written[:front] == launch.written[:front]
    return written[front:]


def inside(pod, launch, bare):
    """The pod as the launcher finds it: its own words, and the env after wrappers and shell."""
    env = {**pod.env, **launch.assigned}
    # Kubernetes expands $(NAME) by the container's env, before any wrapper runs.
    return Node(
        pod.host,
        tuple(expand(word, pod.env) for word in bare),
        {name: value for name, value in env.items() if value is not None},
        pod.devices,
        CPUS,
    )


def is_whole(launch, world):
    """Whether all nodes are one world that uses all devices, or that has the processes which were asked for."""
    if not isinstance(world, Worlds) or len(world.groups) != 1 or world.groups[0][0] != launch.nodes:
        return False
    # One plain program may use several devices by itself; who asks for one process has asked for that.
    plain = launch.bare[0].startswith("python") and "torch.distributed.run" not in launch.bare
    alone = launch.processes == 1 and plain
    return not launch.devices or alone or world.groups[0][1] == launch.nodes * launch.devices


@few
@given(drawn_launches.drawn())
def test_a_launch_is_refused_told_and_let_in_as_the_model_of_the_launchers_says(judge, launch):
    judged = judge(launch)
    world, whole = judged.world, is_whole(launch, judged.world)
    errors = [each for each in judged.findings if each.severity is Severity.ERROR]

    assert judged.findings or whole, f"without a finding it does not train on all devices: {launch}\n{judged}"
    assert not (errors and whole), f"it trains on all devices and is refused: {launch}\n{judged}"
    if isinstance(world, Worlds) and len(world.groups) == 1 and judged.told is not None:
        assert judged.told == str(world.size), f"the guard is told another size: {launch}\n{judged}"
