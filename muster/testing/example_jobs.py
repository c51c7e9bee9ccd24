"""Jobs, runtimes and JobSets for tests: small, complete documents, and samples of what people write.

The rules of mutation are checked with the samples.

"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from muster.runtime_choice import Document
from muster.strategies.documents import names

__all__ = ["NAMESPACE", "SECRET", "Made", "Sample", "make_jobset", "make_runtime", "make_trainjob", "samples"]

Made: TypeAlias = dict[str, Any]
"""A document of the kit, which a test may change."""
NAMESPACE = "team-a"
"""Where the jobs of the kit are."""
_UID = "11111111-2222-3333-4444-555555555555"


def make_trainjob(
    name: str = "example", *, runtime: str = "example", metadata: Document | None = None, **trainer: Any
) -> Made:
    """Return a TrainJob.

    Args:
        name: its name.
        runtime: name of its ClusterTrainingRuntime.
        metadata: further members of its metadata.
        trainer: members of `spec.trainer`, such as `numNodes=2`; without any, the job has no `spec.trainer`.
    """
    spec: Made = {"runtimeRef": {"name": runtime}}
    if trainer:
        spec["trainer"] = trainer
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": "TrainJob",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": _UID, **(metadata or {})},
        "spec": spec,
    }


def make_runtime(
    framework: str,
    *,
    name: str = "example",
    command: Sequence[str] | None = None,
    policy: Document | None = None,
    container: Document | None = None,
) -> Made:
    """Return a ClusterTrainingRuntime with one replicated job, `node`.

    Args:
        framework: value of its label `trainer.kubeflow.org/framework`.
        name: its name.
        command: command of its training container.
        policy: its `mlPolicy`; that of torch by default, with which Trainer injects `PET_*`.
        container: further members of the training container.
    """
    node: Made = {"name": "node", "image": "example.org/image:1", **(container or {})}
    if command is not None:
        node["command"] = list(command)
    job = {
        "name": "node",
        "template": {
            "metadata": {"labels": {names.ANCESTOR_LABEL: names.ANCESTOR_TRAINER}},
            "spec": {"template": {"spec": {"containers": [node]}}},
        },
    }
    return {
        "apiVersion": names.TRAINER_API_VERSION,
        "kind": "ClusterTrainingRuntime",
        "metadata": {"name": name, "labels": {names.FRAMEWORK_LABEL: framework}},
        "spec": {
            "mlPolicy": {"torch": {}} if policy is None else dict(policy),
            "template": {"spec": {"replicatedJobs": [job]}},
        },
    }


def make_jobset(
    framework: str,
    *,
    name: str = "example",
    roles: Mapping[str, int] | None = None,
    container: Document | None = None,
    metadata: Document | None = None,
) -> Made:
    """Return a JobSet that Trainer did not make, as complete as JobSet's own webhook leaves it.

    Args:
        framework: value of its label `trainer.kubeflow.org/framework`.
        name: its name.
        roles: pods of each replicated job by its name; `{"node": 1}` by default.
        container: further members of each container.
        metadata: further members of its metadata.
    """
    own = {"labels": {names.FRAMEWORK_LABEL: framework}, **(metadata or {})}
    return {
        "apiVersion": names.JOBSET_API_VERSION,
        "kind": "JobSet",
        "metadata": {"name": name, "namespace": NAMESPACE, "uid": _UID, **own},
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All"},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
            "replicatedJobs": [_role(*each, container or {}) for each in (roles or {"node": 1}).items()],
        },
    }


def _role(name: str, pods: int, container: Document) -> Made:
    containers = [{"name": name, "image": "example.org/image:1", **container}]
    pod = {"spec": {"restartPolicy": "OnFailure", "containers": containers}}
    job = {"completionMode": "Indexed", "completions": pods, "parallelism": pods, "template": pod}
    return {"name": name, "groupName": "default", "replicas": 1, "template": {"spec": job}}


SECRET = "planted-secret-value"  # noqa: S105  # what must not be quoted
"""The value of a secret variable that each sample has."""
_ENV = [
    {"name": "MINE", "value": "1"},
    {"name": "HF_TOKEN", "value": SECRET},
    {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
]
_SIZES: tuple[Made, ...] = (
    {"numNodes": 1},
    {"numNodes": 2},
    {"numNodes": 2, "numProcPerNode": 1},
    {"numNodes": 1, "numProcPerNode": 4},
)
_GPUS = {"limits": {"nvidia.com/gpu": 4}}
_OWN_PROGRAMS = (["bash", "-c", "exec ./train.sh"], ["python", "train.py"], ["/opt/launcher", "--nodes", "all"])


@dataclass(frozen=True)
class Sample:
    """One job, and what governs it.

    Attributes:
        name: what is special about it, for the message of a test that fails.
        job: a TrainJob, or a JobSet that Trainer did not make.
        runtime: runtime of a TrainJob, None for a JobSet.
        own_program: whether its command is a program of the user, whose launch must stay as it is.
    """

    name: str
    job: Document
    runtime: Document | None = None
    own_program: bool = False
    more: tuple[Document, ...] = field(default=(), repr=False)

    @property
    def cluster(self) -> tuple[Document, ...]:
        """The documents that the decision reads."""
        return self.more if self.runtime is None else (self.runtime, *self.more)


def samples(framework: str, *launches: Sequence[str], policy: Document | None = None) -> list[Sample]:
    """Return jobs of a framework: each launch at several sizes, in the job and in the runtime, and users' programs.

    Args:
        framework: value of the label `trainer.kubeflow.org/framework`.
        launches: command lines that the strategy understands, such as `["axolotl", "train", "config.yaml"]`.
        policy: `mlPolicy` of the runtimes; that of torch by default.
    """
    runtime = make_runtime(framework, policy=policy)
    return [
        *(each for launch in launches for each in _launched(framework, list(launch), runtime, policy)),
        *(_own(command, runtime) for command in _OWN_PROGRAMS),
        Sample("a job without spec.trainer", make_trainjob(), runtime),
        Sample("a JobSet without a TrainJob", make_jobset(framework, roles={"node": 2}, container=_jobset(launches))),
    ]


def _launched(framework: str, launch: list[str], runtime: Document, policy: Document | None) -> Iterator[Sample]:
    name = " ".join(launch)[:60]
    for size in _SIZES:
        yield Sample(f"{name}, {_told(size)}", make_trainjob(command=launch, env=_ENV, **size), runtime)
    split: Made = {"command": launch[:1], "args": launch[1:], "env": _ENV, "numNodes": 2}
    yield Sample(f"{name}, split into command and args", make_trainjob(**split), runtime)
    yield Sample(f"{name}, with GPUs", make_trainjob(command=launch, numNodes=2, resourcesPerNode=_GPUS), runtime)
    brought = make_runtime(framework, command=launch, policy=policy, container={"env": _ENV})
    yield Sample(f"{name}, from the runtime", make_trainjob(numNodes=2), brought)


def _own(command: list[str], runtime: Document) -> Sample:
    job = make_trainjob(command=command, env=_ENV, numNodes=2)
    return Sample(f"a program of the user: {' '.join(command)}", job, runtime, own_program=True)


def _jobset(launches: Sequence[Sequence[str]]) -> Made:
    return {"command": list(launches[0]) if launches else ["python", "train.py"], "env": _ENV}


def _told(size: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in size.items())
