"""What Muster says about random launches is what an independent model of the launchers says (`launcher_model.py`)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings

from strategies.documents.findings import Finding, Severity
from strategies.frameworks import builtin
from strategies.trainer import predictions
from tests.launchers import drawn_launches, launcher_model
from tests.launchers.launcher_model import Broken, Node, Worlds
from tests.support import jobs
from tests.support.pods import expand, pods
from webhook.admission.policies import Policy
from webhook.cli import gathering
from webhook.cli.cases import Setup
from webhook.cluster.overlay import Overlay
from webhook.cluster.readers import Ref
from webhook.kubeyaml.sources import Origin, Source

CPUS = 4
WORLD = "MUSTER_EXPECTED_WORLD_SIZE"
RUNTIMES = {"torch": "torch-distributed", "trl": "trl-distributed", "torchtune": "tune"}
few = settings(max_examples=150, derandomize=True, suppress_health_check=[HealthCheck.too_slow])


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
        if list(case.document["spec"]["trainer"].get("command", ())) != list(launch.written):
            return Judged(found, launcher_model.outcome([as_node(each) for each in places]), told)
        return Judged(found, launcher_model.outcome([inside(each, launch) for each in places]), told)

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


def as_node(pod):
    return Node(pod.host, pod.argv, pod.env, pod.devices, CPUS)


def inside(pod, launch):
    """The pod as the launcher finds it: its own words, and the env after wrappers and shell."""
    env = {**pod.env, **{name: value for name, value in launch.assigned.items() if value is not None}}
    env = {name: value for name, value in env.items() if launch.assigned.get(name, "") is not None}
    # Kubernetes expands $(NAME) of the container's env, before any wrapper runs.
    return Node(pod.host, tuple(expand(word, pod.env) for word in launch.bare), env, pod.devices, CPUS)


@few
@given(drawn_launches.drawn())
def test_what_is_left_without_a_finding_trains_on_all_devices(judge, launch):
    judged = judge(launch)
    if judged.findings:
        return

    assert isinstance(judged.world, Worlds), f"{launch}\n{judged}"
    assert len(judged.world.groups) == 1, f"{launch}\n{judged}"
    nodes, size = judged.world.groups[0]
    assert nodes == launch.nodes, f"{launch}\n{judged}"
    if launch.devices:
        assert size == launch.nodes * launch.devices, f"{launch}\n{judged}"
