"""PyTorchJobs: `pkg/controller.v1/pytorch` of training-operator v1.9.3 says what each member means."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Any, cast

from muster.strategies.documents import names
from muster.strategies.documents.pods import ResourceRequirements
from muster.strategies.platform import devices
from muster.webhook.cli.migrations import pods, reading, targets
from muster.webhook.cli.migrations.notes import Notes
from muster.webhook.cli.migrations.pods import Replica

__all__ = ["migrate", "processes"]

_ROLES = ("Master", "Worker")
_SET = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
_MODULES = ("torch.distributed.run", "torch.distributed.launch")
_TEXTS = {"rdzvId": "PET_RDZV_ID", "maxRestarts": "PET_MAX_RESTARTS"}
_PROCESSES = "a TrainJob takes a number only, and the resources do not tell which; write spec.trainer.numProcPerNode"


def migrate(document: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    """Return the TrainJob of a PyTorchJob, behind its runtime if it needs one of its own."""
    name = targets.metadata(document)["name"]
    replicas = pods.read(document, "pytorchReplicaSpecs", _ROLES, "pytorch", dict.fromkeys(_ROLES, "OnFailure"))
    with_master = replicas[0].role == "Master"
    replica = pods.merge(replicas, notes)
    renamed = [targets.addresses(name, "master", 0), targets.addresses(name, "worker", int(with_master))]
    container = pods.readdress(replica, renamed, notes)
    count = _processes(document, container, notes)
    env = [{"name": "PYTHONUNBUFFERED", "value": "1"}]
    if with_master:
        env += _coordinator(document, name, replica)
    env += _elastic(document, name, renamed)
    replaced = [each for side in replica.containers for each in pods.set_env(side, env)]
    replaced += pods.drop_env(container, names.RESERVED_ENV)
    if replaced:
        text = f"The operator replaced {', '.join(dict.fromkeys(replaced))}; the values here are those of the TrainJob."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer.env", text)
    if replica.count > 1 and with_master:
        text = "The PyTorchJob ended with its Master; the TrainJob succeeds when all nodes did."
        notes.changed("spec.pytorchReplicaSpecs.Master", "spec.trainer.numNodes", text)
    sides = [str(each.get("name")) for each in replica.containers[1:]]
    inject = {"envInjection": {"targets": [{"jobName": "node", "containerNames": sides}]}} if sides else {}
    return targets.single(document, notes, replica, targets.Framework("torch", {"torch": inject}, count))


def _coordinator(document: Mapping[str, Any], name: str, replica: Replica) -> list[dict[str, Any]]:
    """Return the variables that a program without torchrun reads; Trainer sets only those of torchrun."""
    if _is_torchrun(replica.main) and not pods.uses(replica.main, _SET):
        return []
    written = reading.string(document, "spec", "nprocPerNode")
    world = replica.count * (int(written) if written.isdecimal() else 1)  # as the operator counts
    return [
        {"name": "MASTER_ADDR", "value": f"{name}-node-0-0.{name}"},
        {"name": "MASTER_PORT", "value": str(names.DEFAULT_PORT)},
        {"name": "WORLD_SIZE", "value": str(world)},
        targets.index("RANK"),
    ]


def _is_torchrun(container: Mapping[str, Any]) -> bool:
    words = [str(each) for each in (*(container.get("command") or ()), *(container.get("args") or ()))]
    if words and PurePosixPath(words[0]).name == "torchrun":
        return True
    return len(words) > 2 and words[1] == "-m" and words[2] in _MODULES


def _elastic(document: Mapping[str, Any], name: str, renamed: pods.Renamed) -> list[dict[str, Any]]:
    at = ("spec", "elasticPolicy")
    policy = reading.section(document, *at)
    if not policy:
        return []
    host: str = pods.rename(reading.string(document, *at, "rdzvHost"), renamed) or f"{name}-node-0-0.{name}"
    port = reading.integer(document, *at, "rdzvPort", default=names.DEFAULT_PORT)
    found = {"PET_RDZV_BACKEND": policy.get("rdzvBackend") or "c10d", "PET_RDZV_ENDPOINT": f"{host}:{port}"}
    found |= {variable: str(policy[member]) for member, variable in _TEXTS.items() if policy.get(member) is not None}
    pairs = reading.objects(policy.get("rdzvConf"), "spec.elasticPolicy.rdzvConf")
    if pairs:
        found["PET_RDZV_CONF"] = ",".join(f"{each.get('key', '')}={each.get('value', '')}" for each in pairs)
    if policy.get("standalone"):
        found["PET_STANDALONE"] = "1"
    return [{"name": each, "value": value} for each, value in found.items()]


def _processes(document: Mapping[str, Any], container: Mapping[str, Any], notes: Notes) -> int | None:
    old = reading.field(document, int, "spec", "elasticPolicy", "nProcPerNode")
    if old is not None:
        return int(old)
    written = reading.string(document, "spec", "nprocPerNode")
    if not written and not _is_torchrun(container):
        return None
    return processes(written or "auto", container.get("resources") or {}, "spec.nprocPerNode", notes)


def processes(written: str | int, resource: Any, member: str, notes: Notes) -> int | None:
    """Return what `numProcPerNode` becomes, None for Trainer's default; note where it is another number."""
    amounts = {each: reading.section(resource, each) for each in ("requests", "limits")}
    gpus = devices.gpus(cast("ResourceRequirements", amounts))
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
