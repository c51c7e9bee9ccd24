"""What Trainer's plugins add to which pods of a runtime, and which members of a TrainJob they read, by `mlPolicy`.

Nothing that Trainer makes itself is missing in a runtime, and nothing that a plugin reads is ignored, whatever labels
the runtime lacks: MPI and Flux find pods by the names of their replicated jobs. Source: trainer
`pkg/runtime/framework/plugins`, `pkg/constants/constants.go`, `pkg/runtime/core/trainingruntime.go` newRuntimeInfo.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from muster.strategies.documents import names, pods
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.documents.trainjobs import Trainer
from muster.strategies.trainer import resources

__all__ = ["count", "ignored", "parallelism", "volumes"]


@dataclass(frozen=True, slots=True)
class _Plugin:
    """What one member of `mlPolicy` makes Trainer do.

    Attributes:
        counted: name of the replicated job that gets `numNodes`; "" for the one that is labelled as the training.
        processes: whether it reads `numProcPerNode` without a labelled training.
        tells: whether it tells the training how many nodes there are, so that the number alone is not enough.
        volumes: the volumes that it adds, by the name of a replicated job; {job} is the name of the TrainJob.
    """

    counted: str = ""
    processes: bool = False
    tells: bool = False
    volumes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


_FLUX = ("flux-install", "spack-install", "shared-memory", "flux-curve", "{job}-flux-entrypoint")
_PLUGINS: Mapping[str, _Plugin] = {
    "torch": _Plugin(tells=True),
    "jax": _Plugin(tells=True),
    "xgboost": _Plugin(tells=True),
    "mpi": _Plugin(
        names.CONTAINER_NODE,
        processes=True,
        volumes={names.LAUNCHER: ("mpi-ssh-auth", "mpi-hostfile"), names.CONTAINER_NODE: ("mpi-ssh-auth",)},
    ),
    "flux": _Plugin(processes=True, volumes={names.CONTAINER_NODE: _FLUX}),
}
_NO_PLUGIN = _Plugin()
_OF_TRAINING = ("kubeflow-trainer-token",)
"""What the plugin TrainJobStatus adds to the training of any runtime, where its feature gate is on."""
_STEPS = (names.ANCESTOR_TRAINER, "dataset-initializer", "model-initializer")
_REPLACED = ("image", "command", "args")


def volumes(policy: Mapping[str, Any], replicated: Mapping[str, Any], job_name: str | None) -> set[str]:
    """Return the names of the volumes that Trainer adds to the pods of a replicated job.

    Args:
        policy: `mlPolicy` of the runtime.
        replicated: an entry of `replicatedJobs` of its template.
        job_name: name of the TrainJob, None where it is generated.
    """
    every = _OF_TRAINING if _is_training(replicated) else ()
    added = _plugin(policy).volumes.get(str(replicated.get("name")), ())
    return {each.replace("{job}", str(job_name)) for each in (*every, *added)}


def count(policy: Mapping[str, Any], replicated: Mapping[str, Any], trainer: Trainer) -> int:
    """Return the number of pods that a replicated job of a runtime gets for a TrainJob, those of all its Jobs."""
    labelled = pods.labels(replicated).get(names.ANCESTOR_LABEL) in _STEPS
    return parallelism(policy, replicated, trainer) * (1 if labelled else pods.replicas(replicated))


def parallelism(policy: Mapping[str, Any], replicated: Mapping[str, Any], trainer: Trainer) -> int:
    """Return the number of pods that each Job of a replicated job of a runtime gets for a TrainJob."""
    inner = (replicated.get("template") or {}).get("spec") or {}
    own, nodes, plugin = inner.get("parallelism") or 1, trainer.get("numNodes"), _plugin(policy)
    if _is_training(replicated) and policy:
        own = policy.get("numNodes") or 1
    if nodes is not None and _is_counted(plugin, replicated):
        as_node = plugin.counted and (policy.get("mpi") or {}).get("runLauncherAsNode")
        return max(nodes - 1, 1) if as_node else nodes
    return max(int(own), 1)


def _is_counted(plugin: _Plugin, replicated: Mapping[str, Any]) -> bool:
    return replicated.get("name") == plugin.counted if plugin.counted else _is_training(replicated)


def ignored(runtime: Runtime, trainer: Trainer) -> list[str]:
    """Return the members of `spec.trainer` that would change something in the pods of a runtime, and nothing reads."""
    jobs, plugin = list(_jobs(runtime)), _plugin(runtime.ml_policy)
    labelled = any(_is_training(each) and _has_node(each) for each in jobs)
    if labelled and not plugin.counted:  # all is read
        return []
    taken = any(resources.takes(each, runtime.ml_policy) and _has_node(each) for each in jobs)
    read = {
        "numNodes": any(_is_counted(plugin, each) for each in jobs),
        "numProcPerNode": labelled or plugin.processes,
        **dict.fromkeys(("env", "resourcesPerNode"), labelled or taken),
        **dict.fromkeys(_REPLACED, labelled),
    }
    dropped = (member for member in read if trainer.get(member) and not read[member])
    return sorted(member for member in dropped if not _is_had(runtime, plugin, trainer, member))


def _is_had(runtime: Runtime, plugin: _Plugin, trainer: Trainer, member: str) -> bool:
    """Whether a member asks for what the runtime has anyway."""
    place, written = runtime.trainer, trainer.get(member)
    if place is None or member == "numProcPerNode":
        return False
    if member == "numNodes":
        return not plugin.tells and written == count(runtime.ml_policy, place.raw_job, trainer)
    if member == "env":
        return all(each in (place.raw.get("env") or ()) for each in trainer.get("env") or ())
    return _adds_nothing(runtime, trainer) if member == "resourcesPerNode" else written == place.raw.get(member)


def _adds_nothing(runtime: Runtime, trainer: Trainer) -> bool:
    """Whether a container that could be meant asks for all of `resourcesPerNode` already."""
    override: Any = trainer.get("resourcesPerNode") or {}
    for place in pods.places(runtime.document, ("spec", "template", "spec")):
        own: Any = place.raw.get("resources") or {}
        if all((override.get(part) or {}).items() <= (own.get(part) or {}).items() for part in ("limits", "requests")):
            return True
    return False


def _plugin(policy: Mapping[str, Any]) -> _Plugin:
    return next((_PLUGINS[each] for each in _PLUGINS if policy.get(each) is not None), _NO_PLUGIN)


def _jobs(runtime: Runtime) -> Iterator[Mapping[str, Any]]:
    template = (runtime.document.get("spec") or {}).get("template") or {}
    yield from (template.get("spec") or {}).get("replicatedJobs") or ()


def _is_training(replicated: Mapping[str, Any]) -> bool:
    return bool(pods.labels(replicated).get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER)


def _has_node(replicated: Mapping[str, Any]) -> bool:
    inner = ((replicated.get("template") or {}).get("spec") or {}).get("template") or {}
    own = (inner.get("spec") or {}).get("containers") or ()
    return any(each.get("name") == names.CONTAINER_NODE for each in own)
