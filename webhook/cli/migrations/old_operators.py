"""Jobs of the old operators: PyTorchJobs, MPIJobs, TFJobs, XGBoostJobs and JAXJobs.

Sources: `pkg/controller.v1` of training-operator v1.9.3, and mpi-operator v0.6.0, whose MPIJob v2beta1 has no
`kubectl exec`. Trainer has the launcher and the workers of MPI in one runtime, whose main containers all have the
name `node`, and makes the ssh keys and the hostfile as mpi-operator does. It has no policy for TensorFlow, and says the
same as the operator to XGBoost and JAX by variables of other names, so the old ones are written too.

"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePosixPath

from msgspec import Struct

from muster.strategies.documents import model, names
from muster.strategies.platform import devices
from muster.webhook.cli.migrations import old_kinds, pod_templates, trainjob_writing
from muster.webhook.cli.migrations.migration_notes import Notes
from muster.webhook.cli.migrations.old_kinds import Document, OldJob, Raw, Spec, Unmigrated
from muster.webhook.cli.migrations.pod_templates import Replica

__all__ = ["OTHERS", "migrate_mpi", "migrate_other", "migrate_pytorch", "processes"]

_ROLES = ("Master", "Worker")
_SET = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_PROCESSES = "a TrainJob takes a number only, and the resources do not tell which; write spec.trainer.numProcPerNode"


def migrate_pytorch(document: Raw, notes: Notes) -> list[Document]:
    """Return the TrainJob of a PyTorchJob, behind its runtime if it needs one of its own."""
    job = old_kinds.read(document, OldJob)
    name, spec = trainjob_writing.name_of(job), job.spec
    restarts = dict.fromkeys(_ROLES, "OnFailure")
    replicas = pod_templates.read(document, "pytorchReplicaSpecs", _ROLES, "pytorch", restarts)
    with_master = replicas[0].role == "Master"
    replica = pod_templates.merge(replicas, notes)
    renamed = [
        trainjob_writing.addresses(name, "master", 0),
        trainjob_writing.addresses(name, "worker", int(with_master)),
    ]
    container = pod_templates.readdress(replica, renamed, notes)
    elastic = old_kinds.read(spec.elastic_policy, old_kinds.Elastic, "spec.elasticPolicy.")
    count = elastic.n_proc_per_node
    if count is None:
        count = _processes(spec, container, notes)
    env = _variables({"PYTHONUNBUFFERED": 1})
    if with_master:
        env += _coordinator(spec, name, replica)
    if spec.elastic_policy:
        env += _elastic(elastic, name, renamed)
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
    return trainjob_writing.single(job, notes, replica, trainjob_writing.Framework("torch", {"torch": inject}, count))


def _coordinator(spec: Spec, name: str, replica: Replica) -> list[Document]:
    """Return the variables that a program without torchrun reads; Trainer sets only those of torchrun."""
    if _is_torchrun(replica.main) and not pod_templates.uses(replica.main, _SET):
        return []
    written = spec.nproc_per_node
    world = replica.count * (int(written) if written.isdecimal() else 1)  # as the operator counts
    texts = {"MASTER_ADDR": _pods(name, 1)[0], "MASTER_PORT": names.DEFAULT_PORT, "WORLD_SIZE": world}
    return [*_variables(texts), trainjob_writing.index("RANK")]


def _is_torchrun(container: Document) -> bool:
    words = [*container.get("command", ()), *container.get("args", ())]
    if words and PurePosixPath(words[0]).name == "torchrun":
        return True
    return len(words) > 2 and words[1] == "-m" and words[2] in _MODULES


def _elastic(policy: old_kinds.Elastic, name: str, renamed: pod_templates.Renamed) -> list[Document]:
    host = pod_templates.rename(policy.rdzv_host, renamed) or _pods(name, 1)[0]
    port = names.DEFAULT_PORT if policy.rdzv_port is None else policy.rdzv_port
    texts = {
        "PET_RDZV_BACKEND": policy.rdzv_backend or "c10d",
        "PET_RDZV_ENDPOINT": f"{host}:{port}",
        "PET_RDZV_ID": policy.rdzv_id,
        "PET_MAX_RESTARTS": policy.max_restarts,
        "PET_RDZV_CONF": ",".join(f"{each.key}={each.value}" for each in policy.rdzv_conf) or None,
        "PET_STANDALONE": 1 if policy.standalone else None,
    }
    return _variables({variable: value for variable, value in texts.items() if value is not None})


def _processes(spec: Spec, container: Document, notes: Notes) -> int | None:
    if not spec.nproc_per_node and not _is_torchrun(container):
        return None
    resources = old_kinds.read(container.get("resources", {}), model.Resources)
    return processes(spec.nproc_per_node or "auto", resources, "spec.nprocPerNode", notes)


def processes(written: str | int, resources: model.Resources, member: str, notes: Notes) -> int | None:
    """Return what `numProcPerNode` becomes, None for Trainer's default; note where it is another number."""
    gpus = devices.gpus(resources)
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


def migrate_mpi(document: Raw, notes: Notes) -> list[Document]:
    """Return the runtime and the TrainJob of an MPIJob."""
    job = old_kinds.read(document, OldJob)
    name, spec = trainjob_writing.name_of(job), job.spec
    if spec.mpi_implementation not in ("", "OpenMPI"):
        raise Unmigrated(
            f"spec.mpiImplementation: Trainer accepts {spec.mpi_implementation} and then makes no pod; use an image "
            "with OpenMPI, or keep the MPIJob"
        )
    is_v1 = job.api_version == "kubeflow.org/v1"
    launcher, worker = _replicas(document, is_v1=is_v1)
    as_node = spec.run_launcher_as_worker
    found = trainjob_writing.policies(spec, notes, worker.count + launcher.count)
    _judge_clean(spec, notes, is_v1=is_v1)
    renamed = [
        trainjob_writing.addresses(name, "worker", 0),
        trainjob_writing.addresses(name, "launcher", 0, "launcher"),
    ]
    jobs = []
    for replica in (worker, launcher):
        _prepare(pod_templates.readdress(replica, renamed, notes), replica, notes, alone=not as_node)
        _let_ssh_read(replica, notes)
        jobs.append(trainjob_writing.job_of(replica, found, notes, is_job=replica is launcher and not is_v1))
    if is_v1:
        notes.lost(f"{_AT}.Launcher", _SSHD)
    mpi = {
        "numProcPerNode": spec.slots_per_worker,
        "mpiImplementation": "OpenMPI",
        "sshAuthMountPath": spec.ssh_auth_mount_path or _ROOT,
        "runLauncherAsNode": as_node,
    }
    container = launcher.main
    trainer = {"numNodes": worker.count + as_node, "numProcPerNode": spec.slots_per_worker}
    trainer |= {each: container.pop(each) for each in ("command", "args") if container.get(each)}
    # The launcher gets as many pods as the runtime has nodes, the workers as many as the TrainJob has.
    made = trainjob_writing.runtime(job, "mpi", {"numNodes": 1, "mpi": mpi}, _replicated(*jobs), found)
    made["spec"]["template"]["spec"] = {**_JOBSET, **made["spec"]["template"]["spec"]}
    return [made, trainjob_writing.trainjob(job, trainer, found)]


def _replicas(document: Raw, *, is_v1: bool) -> tuple[Replica, Replica]:
    roles, restarts = ("Launcher", "Worker"), {"Launcher": "Never" if is_v1 else "OnFailure"}
    every = pod_templates.read(document, "mpiReplicaSpecs", roles, "", restarts)
    found = {each.role: each for each in every}
    for role in roles:
        if role not in found:
            raise Unmigrated(f"{_AT}: has no {role} with a pod, and a runtime of Trainer needs one; write replicas: 1")
    return found["Launcher"], found["Worker"]


def _replicated(worker: Document, launcher: Document) -> list[Document]:
    labels = {"labels": {names.ANCESTOR_LABEL: "trainer"}}
    waits = [{"name": "node", "status": "Ready"}]
    return [
        {"name": "node", "template": {"spec": worker}},
        {"name": "launcher", "dependsOn": waits, "template": {"metadata": labels, "spec": launcher}},
    ]


def _prepare(container: Document, replica: Replica, notes: Notes, *, alone: bool) -> None:
    """Write what the operator adds to the main container, and take away what Trainer sets and refuses."""
    if replica.role == "Worker" and not container.get("command") and not container.get("args"):
        container["command"] = ["/usr/sbin/sshd", "-De"]
    hidden = dict.fromkeys(_NO_GPU, "") if replica.role == "Launcher" and alone else {}
    pod_templates.set_env(container, _variables({"K_MPI_JOB_ROLE": replica.role.lower(), **hidden}))
    written = pod_templates.drop_env(container, names.RESERVED_ENV_OF_MPI)
    if written:
        text = f"Trainer sets {', '.join(written)}; the values of the MPIJob are not kept."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer", text)
    if any(_HOSTS in str(container.get(each)) for each in ("command", "args")):
        notes.lost(f"{replica.at}.template.spec.containers[0]", f"Trainer makes no {_HOSTS}; its workers are fixed.")


def _let_ssh_read(replica: Replica, notes: Notes) -> None:
    """Let the user of the container read the key, which Trainer mounts for root and the group."""
    spec, at = replica.template["spec"], f"{replica.at}.template.spec.securityContext"
    pod = spec.get("securityContext", {})
    user = {**pod, **replica.main.get("securityContext", {})}.get("runAsUser", 0)
    if user == 0:
        notes.lost(at, f"{_KEY}.")
    elif "fsGroup" not in pod:
        spec["securityContext"] = {**pod, "fsGroup": user}
        number = 0 if replica.role == "Worker" else 1
        to = f"runtime: spec.template.spec.replicatedJobs.{number}.template.spec.template.spec.securityContext"
        notes.changed(at, to, "Trainer's ssh key is readable by this group only.")


def _judge_clean(spec: Spec, notes: Notes, *, is_v1: bool) -> None:
    """Note what the pods of the workers do after the end; a JobSet that succeeded deletes those that run."""
    old = spec.clean_pod_policy
    if old == "All":
        notes.lost("spec.cleanPodPolicy", "A JobSet keeps the pods that ended until the TrainJob is deleted.")
    elif is_v1 and old in ("", "None") and not spec.run_policy.clean_pod_policy:
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
    env: Callable[[str, int, int], list[Document]]
    is_known: bool = True


def migrate_other(document: Raw, notes: Notes) -> list[Document]:
    """Return the runtime and the TrainJob of a job of `KINDS`."""
    job = old_kinds.read(document, OldJob)
    kind, name = OTHERS[job.kind], trainjob_writing.name_of(job)
    replicas = pod_templates.read(document, kind.member, kind.roles, kind.container, {})
    if replicas[0].role != kind.roles[0]:
        raise Unmigrated(f"spec.{kind.member}: has no {kind.roles[0]}, which the operator needs; write one")
    renamed = [
        trainjob_writing.addresses(name, role.lower(), sum(each.count for each in replicas[:number]))
        for number, role in enumerate(kind.roles)
    ]
    replica = pod_templates.merge(replicas, notes)
    container = pod_templates.readdress(replica, renamed, notes)
    ports = (each.get("containerPort") for each in container.get("ports", ()) if _is_of_job(each))
    env = kind.env(name, replica.count, next(ports, kind.port))
    for each in replica.containers if kind.is_known else [container]:
        pod_templates.set_env(each, env)
    _drop_reserved(container, kind, replica, notes)
    waits = job.spec.success_policy == "AllWorkers"
    if (len(replicas) > 1 or not kind.is_known) and replica.count > 1 and not waits:
        text = f"The job ended with its first {replica.role}; the TrainJob succeeds when all nodes did."
        notes.changed(replica.at, "spec.trainer.numNodes", text)
    source = {kind.framework: Document()} if kind.is_known else {}
    return trainjob_writing.single(job, notes, replica, trainjob_writing.Framework(kind.framework, source))


def _is_of_job(port: Document) -> bool:
    return str(port.get("name", "")).endswith("job-port")


def _drop_reserved(container: Document, kind: _Kind, replica: Replica, notes: Notes) -> None:
    dropped = pod_templates.drop_env(container, names.SET_BY.get(kind.framework, frozenset()))
    if dropped:
        text = f"Trainer sets {', '.join(dropped)}, and refuses {'it' if len(dropped) == 1 else 'them'} in a TrainJob."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer.env", text)


def _pods(name: str, count: int, first: int = 0) -> list[str]:
    return [f"{name}-node-0-{number}.{name}" for number in range(first, count)]


def _of_jax(name: str, count: int, port: int) -> list[Document]:
    texts = {"COORDINATOR_PORT": port, "COORDINATOR_ADDRESS": _pods(name, 1)[0], "NUM_PROCESSES": count}
    return [*_variables({"PYTHONUNBUFFERED": 1, **texts}), trainjob_writing.index("PROCESS_ID")]


def _of_xgboost(name: str, count: int, port: int) -> list[Document]:
    texts = {"PYTHONUNBUFFERED": 1, "MASTER_PORT": port, "MASTER_ADDR": _pods(name, 1)[0], "WORLD_SIZE": count}
    if count > 1:
        texts |= {"WORKER_PORT": port, "WORKER_ADDRS": ",".join(_pods(name, count, 1))}
    return [*_variables(texts), trainjob_writing.index("RANK")]


def _of_tensorflow(name: str, count: int, port: int) -> list[Document]:
    """Write TF_CONFIG as the operator does, with the index as a variable that Kubernetes fills in."""
    if count == 1:  # then the operator sets nothing
        return []
    workers = ",".join(f'"{each}:{port}"' for each in _pods(name, count))
    task = f'{{"type":"worker","index":$({_RANK})}}'
    config = f'{{"cluster":{{"worker":[{workers}]}},"task":{task},"environment":"cloud"}}'
    return [trainjob_writing.index(_RANK), *_variables({"TF_CONFIG": config})]


def _variables(values: Mapping[str, object]) -> list[Document]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


OTHERS: Mapping[str, _Kind] = {
    "JAXJob": _Kind("jaxReplicaSpecs", ("Worker",), "jax", 6666, "jax", _of_jax),
    "XGBoostJob": _Kind("xgbReplicaSpecs", ("Master", "Worker"), "xgboost", 9999, "xgboost", _of_xgboost),
    "TFJob": _Kind("tfReplicaSpecs", ("Worker",), "tensorflow", 2222, "tensorflow", _of_tensorflow, is_known=False),
}
"""What is said about each kind."""
