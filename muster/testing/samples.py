"""Samples: jobs of a framework as people write them, with which the rules of mutation are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from muster.testing.documents import make_jobset, make_runtime, make_trainjob

__all__ = ["SECRET", "Sample", "samples"]

SECRET = "planted-secret-value"  # noqa: S105  # what must not be quoted
"""The value of a secret variable that each sample has."""
_ENV = [
    {"name": "MINE", "value": "1"},
    {"name": "HF_TOKEN", "value": SECRET},
    {"name": "FROM", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}},
]
_SIZES: tuple[dict[str, Any], ...] = (
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
    job: Mapping[str, Any]
    runtime: Mapping[str, Any] | None = None
    own_program: bool = False
    more: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    @property
    def cluster(self) -> tuple[Mapping[str, Any], ...]:
        """The documents that the decision reads."""
        return self.more if self.runtime is None else (self.runtime, *self.more)


def samples(framework: str, *launches: Sequence[str], policy: Mapping[str, Any] | None = None) -> list[Sample]:
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


def _launched(
    framework: str, launch: list[str], runtime: Mapping[str, Any], policy: Mapping[str, Any] | None
) -> Iterator[Sample]:
    name = " ".join(launch)[:60]
    for size in _SIZES:
        yield Sample(f"{name}, {_told(size)}", make_trainjob(command=launch, env=_ENV, **size), runtime)
    split: dict[str, Any] = {"command": launch[:1], "args": launch[1:], "env": _ENV, "numNodes": 2}
    yield Sample(f"{name}, split into command and args", make_trainjob(**split), runtime)
    yield Sample(f"{name}, with GPUs", make_trainjob(command=launch, numNodes=2, resourcesPerNode=_GPUS), runtime)
    brought = make_runtime(framework, command=launch, policy=policy, container={"env": _ENV})
    yield Sample(f"{name}, from the runtime", make_trainjob(numNodes=2), brought)


def _own(command: list[str], runtime: Mapping[str, Any]) -> Sample:
    job = make_trainjob(command=command, env=_ENV, numNodes=2)
    return Sample(f"a program of the user: {' '.join(command)}", job, runtime, own_program=True)


def _jobset(launches: Sequence[Sequence[str]]) -> dict[str, Any]:
    return {"command": list(launches[0]) if launches else ["python", "train.py"], "env": _ENV}


def _told(size: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in size.items())
