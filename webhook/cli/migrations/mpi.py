"""MPIJobs: v1 of training-operator v1.9.3, which works by `kubectl exec`, and v2beta1 of mpi-operator v0.6.0.

Trainer has the launcher and the workers in one runtime, whose main containers all have the name `node`, and does
what mpi-operator does: it makes the ssh keys and the hostfile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.strategies.documents import names
from muster.webhook.cli.migrations import pods, reading, targets
from muster.webhook.cli.migrations.notes import Notes, Unmigrated
from muster.webhook.cli.migrations.pods import Replica

__all__ = ["migrate"]

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


def migrate(document: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    """Return the runtime and the TrainJob of an MPIJob."""
    about = targets.metadata(document)
    flavour = reading.string(document, "spec", "mpiImplementation") or "OpenMPI"
    if flavour != "OpenMPI":
        raise Unmigrated(
            f"spec.mpiImplementation: Trainer accepts {flavour} and then makes no pod; use an image with OpenMPI, "
            "or keep the MPIJob"
        )
    is_v1 = document["apiVersion"] == "kubeflow.org/v1"
    launcher, worker = _replicas(document, is_v1=is_v1)
    as_node = bool(reading.field(document, bool, "spec", "runLauncherAsWorker"))
    found = targets.policies(document, notes, worker.count + launcher.count)
    _judge_clean(document, notes, is_v1=is_v1)
    renamed = [
        targets.addresses(about["name"], "worker", 0),
        targets.addresses(about["name"], "launcher", 0, "launcher"),
    ]
    mount = reading.string(document, "spec", "sshAuthMountPath") or _ROOT
    jobs = []
    for replica in (worker, launcher):
        _prepare(pods.readdress(replica, renamed, notes), replica, notes, alone=not as_node)
        _let_ssh_read(replica, notes)
        jobs.append(targets.job_of(replica, found, notes, is_job=replica is launcher and not is_v1))
    if is_v1:
        notes.lost(f"{_AT}.Launcher", _SSHD)
    slots = reading.integer(document, "spec", "slotsPerWorker", default=1)
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
    made = targets.runtime(about, "mpi", {"numNodes": 1, "mpi": mpi}, _replicated(*jobs), found)
    made["spec"]["template"]["spec"] = {**_JOBSET, **made["spec"]["template"]["spec"]}
    reference = {"apiGroup": names.TRAINER_GROUP, "kind": "TrainingRuntime", "name": about["name"]}
    return [made, targets.trainjob(about, {"runtimeRef": reference, "trainer": trainer, **found.spec})]


def _replicas(document: Mapping[str, Any], *, is_v1: bool) -> tuple[Replica, Replica]:
    restarts = {"Launcher": "Never" if is_v1 else "OnFailure"}
    found = {each.role: each for each in pods.read(document, "mpiReplicaSpecs", ("Launcher", "Worker"), "", restarts)}
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
    pods.set_env(container, env)
    written = pods.drop_env(container, names.RESERVED_ENV_OF_MPI)
    if written:
        text = f"Trainer sets {', '.join(written)}; the values of the MPIJob are not kept."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer", text)
    if any(_HOSTS in str(each) for each in (container.get("command"), container.get("args"))):
        notes.lost(f"{replica.at}.template.spec.containers[0]", f"Trainer makes no {_HOSTS}; its workers are fixed.")


def _let_ssh_read(replica: Replica, notes: Notes) -> None:
    """Let the user of the container read the key, which Trainer mounts for root and the group."""
    spec = replica.template["spec"]
    pod, own = reading.section(spec, "securityContext"), reading.section(replica.main, "securityContext")
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
    old = reading.string(document, "spec", "cleanPodPolicy")
    if old == "All":
        notes.lost("spec.cleanPodPolicy", "A JobSet keeps the pods that ended until the TrainJob is deleted.")
    elif is_v1 and old in ("", "None") and not reading.string(document, "spec", "runPolicy", "cleanPodPolicy"):
        text = "The workers went on after the launcher ended; a JobSet that succeeded deletes them."
        notes.changed("spec.cleanPodPolicy", "spec.runtimeRef", text)
