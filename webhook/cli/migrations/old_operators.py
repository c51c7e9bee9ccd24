"""Jobs of the old operators: PyTorchJobs, MPIJobs, TFJobs, XGBoostJobs and JAXJobs.

Sources: `pkg/controller.v1` of training-operator v1.9.3, and mpi-operator v0.6.0, whose MPIJob v2beta1 has no
`kubectl exec`. Trainer has the launcher and the workers of MPI in one runtime, whose main containers all have the
name `node`, and makes the ssh keys and the hostfile as mpi-operator does. It has no policy for TensorFlow, and says the
same as the operator to XGBoost and JAX by variables of other names, so the old ones are written too.

"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct

from muster.strategies.documents import decoding, model, names
from muster.strategies.platform import devices
from muster.webhook.cli.migrations import migration_notes, pod_templates, trainjob_writing
from muster.webhook.cli.migrations.migration_notes import Notes, Unmigrated
from muster.webhook.cli.migrations.pod_templates import Replica

__all__ = ["OTHERS", "migrate_mpi", "migrate_other", "migrate_pytorch", "processes"]

_ROLES = ("Master", "Worker")
_SET = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_TEXTS = {"rdzvId": "PET_RDZV_ID", "maxRestarts": "PET_MAX_RESTARTS"}
_PROCESSES = "a TrainJob takes a number only, and the resources do not tell which; write spec.trainer.numProcPerNode"


def migrate_pytorch(document: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    """Return the TrainJob of a PyTorchJob, behind its runtime if it needs one of its own."""
    name = trainjob_writing.metadata(document)["name"]
    replicas = pod_templates.read(
        document, "pytorchReplicaSpecs", _ROLES, "pytorch", dict.fromkeys(_ROLES, "OnFailure")
    )
    with_master = replicas[0].role == "Master"
    replica = pod_templates.merge(replicas, notes)
    renamed = [
        trainjob_writing.addresses(name, "master", 0),
        trainjob_writing.addresses(name, "worker", int(with_master)),
    ]
    container = pod_templates.readdress(replica, renamed, notes)
    count = _processes(document, container, notes)
    env = [{"name": "PYTHONUNBUFFERED", "value": "1"}]
    if with_master:
        env += _coordinator(document, name, replica)
    env += _elastic(document, name, renamed)
    replaced = [each for side in replica.containers for each in pod_templates.set_env(side, env)]
    replaced += pod_templates.drop_env(container, names.RESERVED_ENV)
    if replaced:
        text = f"The operator replaced {', '.join(dict.fromkeys(replaced))}; the values here are those of the TrainJob."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer.env", text)
    if replica.count > 1 and with_master:
        text = "The PyTorchJob ended with its Master; the TrainJob succeeds when all nodes did."
        notes.changed("spec.pytorchReplicaSpecs.Master", "spec.trainer.numNodes", text)
    sides = [str(each.get("name")) for each in replica.containers[1:]]
    inject = {"envInjection": {"targets": [{"jobName": "node", "containerNames": sides}]}} if sides else {}
    return trainjob_writing.single(
        document, notes, replica, trainjob_writing.Framework("torch", {"torch": inject}, count)
    )


def _coordinator(document: Mapping[str, Any], name: str, replica: Replica) -> list[dict[str, Any]]:
    """Return the variables that a program without torchrun reads; Trainer sets only those of torchrun."""
    if _is_torchrun(replica.main) and not pod_templates.uses(replica.main, _SET):
        return []
    written = migration_notes.string(document, "spec", "nprocPerNode")
    world = replica.count * (int(written) if written.isdecimal() else 1)  # as the operator counts
    return [
        {"name": "MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
        {"name": "MASTER_PORT", "value": str(names.DEFAULT_PORT)},
        {"name": "WORLD_SIZE", "value": str(world)},
        trainjob_writing.index("RANK"),
    ]


def _is_torchrun(container: Mapping[str, Any]) -> bool:
    words = [str(each) for each in (*(container.get("command") or ()), *(container.get("args") or ()))]
    if words and PurePosixPath(words[0]).name == "torchrun":
        return True
    return len(words) > 2 and words[1] == "-m" and words[2] in _MODULES


def _elastic(document: Mapping[str, Any], name: str, renamed: pod_templates.Renamed) -> list[dict[str, Any]]:
    at = ("spec", "elasticPolicy")
    policy = migration_notes.section(document, *at)
    if not policy:
        return []
    host: str = (
        pod_templates.rename(migration_notes.string(document, *at, "rdzvHost"), renamed) or f"{name}-node-0-0.{name}"
    )
    port = migration_notes.integer(document, *at, "rdzvPort", default=names.DEFAULT_PORT)
    found = {"PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d", "PET_RDZV_ENDPOINT": f"{host}:{port}"}
    found |= {variable: str(policy[member]) for member, variable in _TEXTS.items() if policy.get(member) is not None}
    pairs = migration_notes.objects(policy.get("rdzvConf"), "spec.elasticPolicy.rdzvConf")
    if pairs:
        found["PET_RDZV_CONF"] = ",".join(f"{each.get('key', '')}={each.get('value', '')}" for each in pairs)
    if policy.get("standalone"):
        found["PET_STANDALONE"] = "1"
    return [{"name": each, "value": value} for each, value in found.items()]


def _processes(document: Mapping[str, Any], container: Mapping[str, Any], notes: Notes) -> int | None:
    old = migration_notes.typed(document, int, "spec", "elasticPolicy", "nProcPerNode")
    if old is not None:
        return int(old)
    written = migration_notes.string(document, "spec", "nprocPerNode")
    if not written and not _is_torchrun(container):
        return None
    return processes(written or "auto", container.get("resources") or {}, "spec.nprocPerNode", notes)


def processes(written: str | int, resource: Any, member: str, notes: Notes) -> int | None:
    """Return what `numProcPerNode` becomes, None for Trainer's default; note where it is another number."""
    amounts = {each: migration_notes.section(resource, each) for each in ("requests", "limits")}
    gpus = devices.gpus(decoding.read(amounts, model.Resources))
    if str(written).isdecimal():
        return int(written)
    if written == "auto":
        if not gpus:
            text = "auto counted the CPUs of the machine; without GPUs Trainer counts the CPUs that the resources name."
            notes.changed(member, "spec.trainer", text)
        return None
    if written == "gpu" and gpus:
        return gpus
    notes.lost(member, f"{written!r}: {_PROCESSES}")
    return None


_AT = "spec.mpiReplicaSpecs"
_ROOT = "/root/.ssh"
_KEY = (
    "Trainer mounts the private key with mode 0640, and ssh refuses such a key where its owner, root, runs ssh. "
    "Use an image with another user, and write runAsUser, fsGroup and sshAuthMountPath"
)
_SSHD = "v1 started processes by kubectl exec; Trainer starts them by ssh, so the image needs sshd and an ssh client."
_HOSTS = "/etc/mpi/discover_hosts.sh"
_JOBSET = {
    "network": {"publishNotReadyAddresses": True},
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["launcher"]},
}
_NO_GPU = ("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES")


def migrate_mpi(document: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    """Return the runtime and the TrainJob of an MPIJob."""
    about = trainjob_writing.metadata(document)
    flavour = migration_notes.string(document, "spec", "mpiImplementation") or "OpenMPI"
    if flavour != "OpenMPI":
        raise Unmigrated(
            f"spec.mpiImplementation: Trainer accepts {flavour} and then makes no pod; use an image with OpenMPI, "
            "or keep the MPIJob"
        )
    is_v1 = document["apiVersion"] == "kubeflow.org/v1"
    launcher, worker = _replicas(document, is_v1=is_v1)
    as_node = bool(migration_notes.typed(document, bool, "spec", "runLauncherAsWorker"))
    found = trainjob_writing.policies(document, notes, worker.count + launcher.count)
    _judge_clean(document, notes, is_v1=is_v1)
    renamed = [
        trainjob_writing.addresses(about["name"], "worker", 0),
        trainjob_writing.addresses(about["name"], "launcher", 0, "launcher"),
    ]
    mount = migration_notes.string(document, "spec", "sshAuthMountPath") or _ROOT
    jobs = []
    for replica in (worker, launcher):
        _prepare(pod_templates.readdress(replica, renamed, notes), replica, notes, alone=not as_node)
        _let_ssh_read(replica, notes)
        jobs.append(trainjob_writing.job_of(replica, found, notes, is_job=replica is launcher and not is_v1))
    if is_v1:
        notes.lost(f"{_AT}.Launcher", _SSHD)
    slots = migration_notes.integer(document, "spec", "slotsPerWorker", default=1)
    mpi = {
        "numProcPerNode": slots,
        "mpiImplementation": flavour,
        "sshAuthMountPath": mount,
        "runLauncherAsNode": as_node,
    }
    container = launcher.main
    trainer = {"numNodes": worker.count + as_node, "numProcPerNode": slots}
    trainer |= {each: container.pop(each) for each in ("command", "args") if container.get(each)}
    # The launcher gets as many pods as the runtime has nodes, the workers as many as the TrainJob has.
    made = trainjob_writing.runtime(about, "mpi", {"numNodes": 1, "mpi": mpi}, _replicated(*jobs), found)
    made["spec"]["template"]["spec"] = {**_JOBSET, **made["spec"]["template"]["spec"]}
    reference = {"apiGroup": names.TRAINER_GROUP, "kind": "TrainingRuntime", "name": about["name"]}
    return [made, trainjob_writing.trainjob(about, {"runtimeRef": reference, "trainer": trainer, **found.spec})]


def _replicas(document: Mapping[str, Any], *, is_v1: bool) -> tuple[Replica, Replica]:
    restarts = {"Launcher": "Never" if is_v1 else "OnFailure"}
    found = {
        each.role: each
        for each in pod_templates.read(document, "mpiReplicaSpecs", ("Launcher", "Worker"), "", restarts)
    }
    for role in ("Launcher", "Worker"):
        if role not in found:
            raise Unmigrated(f"{_AT}: has no {role} with a pod, and a runtime of Trainer needs one; write replicas: 1")
    return found["Launcher"], found["Worker"]


def _replicated(worker: Mapping[str, Any], launcher: Mapping[str, Any]) -> list[dict[str, Any]]:
    labels = {"labels": {names.ANCESTOR_LABEL: "trainer"}}
    waits = [{"name": "node", "status": "Ready"}]
    return [
        {"name": "node", "template": {"spec": worker}},
        {"name": "launcher", "dependsOn": waits, "template": {"metadata": labels, "spec": launcher}},
    ]


def _prepare(container: dict[str, Any], replica: Replica, notes: Notes, *, alone: bool) -> None:
    """Write what the operator adds to the main container, and take away what Trainer sets and refuses."""
    if replica.role == "Worker" and not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    env: list[dict[str, Any]] = [{"name": "K_MPI_JOB_ROLE", "value": replica.role.lower()}]
    if replica.role == "Launcher" and alone:
        env += [{"name": each, "value": ""} for each in _NO_GPU]
    pod_templates.set_env(container, env)
    written = pod_templates.drop_env(container, names.RESERVED_ENV_OF_MPI)
    if written:
        text = f"Trainer sets {', '.join(written)}; the values of the MPIJob are not kept."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer", text)
    if any(_HOSTS in str(each) for each in (container.get("command"), container.get("args"))):
        notes.lost(f"{replica.at}.template.spec.containers[0]", f"Trainer makes no {_HOSTS}; its workers are fixed.")


def _let_ssh_read(replica: Replica, notes: Notes) -> None:
    """Let the user of the container read the key, which Trainer mounts for root and the group."""
    spec = replica.template["spec"]
    pod, own = (
        migration_notes.section(spec, "securityContext"),
        migration_notes.section(replica.main, "securityContext"),
    )
    user = own.get("runAsUser", pod.get("runAsUser", 0))
    if user == 0:
        notes.lost(f"{replica.at}.template.spec.securityContext", f"{_KEY}.")
    elif "fsGroup" not in pod:
        spec["securityContext"] = {**pod, "fsGroup": user}
        number = 0 if replica.role == "Worker" else 1
        to = f"runtime: spec.template.spec.replicatedJobs.{number}.template.spec.template.spec.securityContext"
        notes.changed(
            f"{replica.at}.template.spec.securityContext", to, "Trainer's ssh key is readable by this group only."
        )


def _judge_clean(document: Mapping[str, Any], notes: Notes, *, is_v1: bool) -> None:
    """Note what the pods of the workers do after the end; a JobSet that succeeded deletes those that run."""
    old = migration_notes.string(document, "spec", "cleanPodPolicy")
    if old == "All":
        notes.lost("spec.cleanPodPolicy", "A JobSet keeps the pods that ended until the TrainJob is deleted.")
    elif is_v1 and old in ("", "None") and not migration_notes.string(document, "spec", "runPolicy", "cleanPodPolicy"):
        text = "The workers went on after the launcher ended; a JobSet that succeeded deletes them."
        notes.changed("spec.cleanPodPolicy", "spec.runtimeRef", text)


_RANK = "TF_TASK_INDEX"


class _Kind(Struct, frozen=True):
    """What the jobs of one framework have in common.

    Attributes:
        member: of the spec, with the replicas.
        roles: roles that a TrainJob can hold, that of rank 0 first.
        container: name of the main container, and of the port together with `job-port`.
        port: its default number.
        framework: label of the runtime.
        env: makes the variables of the operator from the name of the job, the number of pods and the port.
        is_known: whether Trainer has a policy for the framework; its operator then tells all containers.
    """

    member: str
    roles: tuple[str, ...]
    container: str
    port: int
    framework: str
    env: Callable[[str, int, int], list[dict[str, Any]]]
    is_known: bool = True


def migrate_other(document: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    """Return the runtime and the TrainJob of a job of `KINDS`."""
    kind = OTHERS[document["kind"]]
    name = trainjob_writing.metadata(document)["name"]
    replicas = pod_templates.read(document, kind.member, kind.roles, kind.container, {})
    if replicas[0].role != kind.roles[0]:
        raise Unmigrated(f"spec.{kind.member}: has no {kind.roles[0]}, which the operator needs; write one")
    renamed = [
        trainjob_writing.addresses(name, role.lower(), sum(each.count for each in replicas[:number]))
        for number, role in enumerate(kind.roles)
    ]
    replica = pod_templates.merge(replicas, notes)
    container = pod_templates.readdress(replica, renamed, notes)
    env = kind.env(name, replica.count, _port(container, kind))
    for each in replica.containers if kind.is_known else [container]:
        pod_templates.set_env(each, env)
    _drop_reserved(container, kind, replica, notes)
    if (len(replicas) > 1 or not kind.is_known) and replica.count > 1 and not _waits(document):
        text = f"The job ended with its first {replica.role}; the TrainJob succeeds when all nodes did."
        notes.changed(replica.at, "spec.trainer.numNodes", text)
    source: Mapping[str, Any] = {kind.framework: {}} if kind.is_known else {}
    return trainjob_writing.single(document, notes, replica, trainjob_writing.Framework(kind.framework, source))


def _waits(document: Mapping[str, Any]) -> bool:
    return migration_notes.string(document, "spec", "successPolicy") == "AllWorkers"


def _port(container: Mapping[str, Any], kind: _Kind) -> int:
    named = [each for each in container.get("ports") or () if str(each.get("name", "")).endswith("job-port")]
    return migration_notes.integer(named[0], "containerPort", default=kind.port) if named else kind.port


def _drop_reserved(container: dict[str, Any], kind: _Kind, replica: Replica, notes: Notes) -> None:
    dropped = pod_templates.drop_env(container, names.SET_BY.get(kind.framework, frozenset()))
    if dropped:
        text = f"Trainer sets {', '.join(dropped)}, and refuses {'it' if len(dropped) == 1 else 'them'} in a TrainJob."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer.env", text)


def _pods(name: str, count: int, first: int = 0) -> list[str]:
    return [f"{name}-node-0-{number}.{name}" for number in range(first, count)]


def _of_jax(name: str, count: int, port: int) -> list[dict[str, Any]]:
    texts = {"COORDINATOR_PORT": port, "COORDINATOR_ADDRESS": _pods(name, 1)[0], "NUM_PROCESSES": count}
    return [*_variables({"PYTHONUNBUFFERED": 1, **texts}), trainjob_writing.index("PROCESS_ID")]


def _of_xgboost(name: str, count: int, port: int) -> list[dict[str, Any]]:
    texts = {"PYTHONUNBUFFERED": 1, "MASTER_PORT": port, "MASTER_ADDR": _pods(name, 1)[0], "WORLD_SIZE": count}
    if count > 1:
        texts |= {"WORKER_PORT": port, "WORKER_ADDRS": ",".join(_pods(name, count, 1))}
    return [*_variables(texts), trainjob_writing.index("RANK")]


def _of_tensorflow(name: str, count: int, port: int) -> list[dict[str, Any]]:
    """Write TF_CONFIG as the operator does, with the index as a variable that Kubernetes fills in."""
    if count == 1:  # then the operator sets nothing
        return []
    workers = ",".join(f'"{each}:{port}"' for each in _pods(name, count))
    task = f'{{"type":"worker","index":$({_RANK})}}'
    config = f'{{"cluster":{{"worker":[{workers}]}},"task":{task},"environment":"cloud"}}'
    return [trainjob_writing.index(_RANK), *_variables({"TF_CONFIG": config})]


def _variables(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


OTHERS: Mapping[str, _Kind] = {
    "JAXJob": _Kind("jaxReplicaSpecs", ("Worker",), "jax", 6666, "jax", _of_jax),
    "XGBoostJob": _Kind("xgbReplicaSpecs", ("Master", "Worker"), "xgboost", 9999, "xgboost", _of_xgboost),
    "TFJob": _Kind("tfReplicaSpecs", ("Worker",), "tensorflow", 2222, "tensorflow", _of_tensorflow, is_known=False),
}
"""What is said about each kind."""
