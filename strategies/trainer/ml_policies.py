"""What Trainer's plugins add to which pods of a runtime, and which members of a TrainJob they read, by `mlPolicy`.

Nothing that Trainer makes itself is missing in a runtime, and nothing that a plugin reads is ignored, whatever labels
the runtime lacks: MPI and Flux find pods by the names of their replicated jobs. Source: trainer
`pkg/runtime/framework/plugins`, `pkg/constants/constants.go`, `pkg/runtime/core/trainingruntime.go` newRuntimeInfo.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from muster.strategies.documents import names, pods
from muster.strategies.documents.model import MLPolicy, ReplicatedJob, Resources, Trainer
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import resources

__all__ = ["count", "ignored", "parallelism", "volumes"]


class _Plugin(Struct, frozen=True):
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


def volumes(policy: MLPolicy, replicated: ReplicatedJob, job_name: str | None) -> set[str]:
    """Return the names of the volumes that Trainer adds to the pods of a replicated job.

    Args:
        policy: `mlPolicy` of the runtime.
        replicated: an entry of `replicatedJobs` of its template.
        job_name: name of the TrainJob, None where it is generated.
    """
    every = _OF_TRAINING if _is_training(replicated) else ()
    added = _plugin(policy).volumes.get(replicated.name, ())
    return {each.replace("{job}", str(job_name)) for each in (*every, *added)}


def count(policy: MLPolicy, replicated: ReplicatedJob, trainer: Trainer) -> int:
    """Return the number of pods that a replicated job of a runtime gets for a TrainJob, those of all its Jobs."""
    labelled = replicated.labels.get(names.ANCESTOR_LABEL) in _STEPS
    return parallelism(policy, replicated, trainer) * (1 if labelled else replicated.jobs)


def parallelism(policy: MLPolicy, replicated: ReplicatedJob, trainer: Trainer) -> int:
    """Return the number of pods that each Job of a replicated job of a runtime gets for a TrainJob."""
    own, nodes, plugin = replicated.template.spec.parallelism, trainer.num_nodes, _plugin(policy)
    if _is_training(replicated) and policy != MLPolicy():
        own = policy.num_nodes
    if nodes is not None and _is_counted(plugin, replicated):
        as_node = plugin.counted and policy.mpi is not None and policy.mpi.run_launcher_as_node
        return max(nodes - 1, 1) if as_node else nodes
    return max(own or 1, 1)


def _is_counted(plugin: _Plugin, replicated: ReplicatedJob) -> bool:
    return replicated.name == plugin.counted if plugin.counted else _is_training(replicated)


def ignored(runtime: Runtime, trainer: Trainer) -> list[str]:
    """Return the members of `spec.trainer` that would change something in the pods of a runtime, and nothing reads."""
    jobs, plugin = runtime.value.spec.template.spec.replicated_jobs, _plugin(runtime.policy)
    labelled = any(_is_training(each) and _has_node(each) for each in jobs)
    if labelled and not plugin.counted:  # all is read
        return []
    taken = any(resources.takes(each, runtime.policy) and _has_node(each) for each in jobs)
    read = {
        "numNodes": any(_is_counted(plugin, each) for each in jobs),
        "numProcPerNode": labelled or plugin.processes,
        **dict.fromkeys(("env", "resourcesPerNode"), labelled or taken),
        **dict.fromkeys(_REPLACED, labelled),
    }
    given = {
        "numNodes": trainer.num_nodes,
        "numProcPerNode": trainer.num_proc_per_node,
        "env": trainer.env,
        "resourcesPerNode": trainer.resources_per_node,
        **{member: getattr(trainer, member) for member in _REPLACED},
    }
    dropped = (member for member in read if given[member] and not read[member])
    return sorted(member for member in dropped if not _is_had(runtime, plugin, trainer, member))


def _is_had(runtime: Runtime, plugin: _Plugin, trainer: Trainer, member: str) -> bool:
    """Whether a member asks for what the runtime has anyway."""
    place = runtime.trainer
    if place is None or member == "numProcPerNode":
        return False
    if member == "numNodes":
        return not plugin.tells and trainer.num_nodes == count(runtime.policy, place.job, trainer)
    if member == "env":
        return all(each in place.container.env for each in trainer.env)
    if member == "resourcesPerNode":
        return _adds_nothing(runtime, trainer.resources_per_node or Resources())
    return bool(getattr(trainer, member) == getattr(place.container, member))


def _adds_nothing(runtime: Runtime, override: Resources) -> bool:
    """Whether a container that could be meant asks for all of `resourcesPerNode` already."""
    return any(
        override.limits.items() <= own.limits.items() and override.requests.items() <= own.requests.items()
        for own in (each.container.resources for each in pods.places(runtime.document, ("spec", "template", "spec")))
    )


def _plugin(policy: MLPolicy) -> _Plugin:
    return next((_PLUGINS[each] for each in _PLUGINS if getattr(policy, each) is not None), _NO_PLUGIN)


def _is_training(replicated: ReplicatedJob) -> bool:
    return replicated.labels.get(names.ANCESTOR_LABEL) == names.ANCESTOR_TRAINER


def _has_node(replicated: ReplicatedJob) -> bool:
    return any(each.name == names.CONTAINER_NODE for each in replicated.pod.containers)
