"""TFJobs, XGBoostJobs and JAXJobs: each a row of what its operator says to the pods by variables.

Sources: `pkg/controller.v1/{tensorflow,xgboost,jax}` of training-operator v1.9.3. Trainer has no policy for
TensorFlow, and says the same to XGBoost and JAX by variables of other names, so the old ones are written too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.strategies.documents import names
from muster.webhook.cli.migrations import pods, reading, targets
from muster.webhook.cli.migrations.notes import Notes, Unmigrated
from muster.webhook.cli.migrations.pods import Replica

__all__ = ["KINDS", "migrate"]

_RANK = "TF_TASK_INDEX"


@dataclass(frozen=True, slots=True)
class Kind:
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


def migrate(document: Mapping[str, Any], notes: Notes) -> list[dict[str, Any]]:
    """Return the runtime and the TrainJob of a job of `KINDS`."""
    kind = KINDS[document["kind"]]
    name = targets.metadata(document)["name"]
    replicas = pods.read(document, kind.member, kind.roles, kind.container, {})
    if replicas[0].role != kind.roles[0]:
        raise Unmigrated(f"spec.{kind.member}: has no {kind.roles[0]}, which the operator needs; write one")
    renamed = [
        targets.addresses(name, role.lower(), sum(each.count for each in replicas[:number]))
        for number, role in enumerate(kind.roles)
    ]
    replica = pods.merge(replicas, notes)
    container = pods.readdress(replica, renamed, notes)
    env = kind.env(name, replica.count, _port(container, kind))
    for each in replica.containers if kind.is_known else [container]:
        pods.set_env(each, env)
    _drop_reserved(container, kind, replica, notes)
    if (len(replicas) > 1 or not kind.is_known) and replica.count > 1 and not _waits(document):
        text = f"The job ended with its first {replica.role}; the TrainJob succeeds when all nodes did."
        notes.changed(replica.at, "spec.trainer.numNodes", text)
    source: Mapping[str, Any] = {kind.framework: {}} if kind.is_known else {}
    return targets.single(document, notes, replica, targets.Framework(kind.framework, source))


def _waits(document: Mapping[str, Any]) -> bool:
    return reading.string(document, "spec", "successPolicy") == "AllWorkers"


def _port(container: Mapping[str, Any], kind: Kind) -> int:
    named = [each for each in container.get("ports") or () if str(each.get("name", "")).endswith("job-port")]
    return reading.integer(named[0], "containerPort", default=kind.port) if named else kind.port


def _drop_reserved(container: dict[str, Any], kind: Kind, replica: Replica, notes: Notes) -> None:
    dropped = pods.drop_env(container, names.SET_BY.get(kind.framework, frozenset()))
    if dropped:
        text = f"Trainer sets {', '.join(dropped)}, and refuses {'it' if len(dropped) == 1 else 'them'} in a TrainJob."
        notes.changed(f"{replica.at}.template.spec.containers[0].env", "spec.trainer.env", text)


def _pods(name: str, count: int, first: int = 0) -> list[str]:
    return [f"{name}-node-0-{number}.{name}" for number in range(first, count)]


def _of_jax(name: str, count: int, port: int) -> list[dict[str, Any]]:
    texts = {"COORDINATOR_PORT": port, "COORDINATOR_ADDRESS": _pods(name, 1)[0], "NUM_PROCESSES": count}
    return [*_texts({"PYTHONUNBUFFERED": 1, **texts}), targets.index("PROCESS_ID")]


def _of_xgboost(name: str, count: int, port: int) -> list[dict[str, Any]]:
    texts = {"PYTHONUNBUFFERED": 1, "MASTER_PORT": port, "MASTER_ADDR": _pods(name, 1)[0], "WORLD_SIZE": count}
    if count > 1:
        texts |= {"WORKER_PORT": port, "WORKER_ADDRS": ",".join(_pods(name, count, 1))}
    return [*_texts(texts), targets.index("RANK")]


def _of_tensorflow(name: str, count: int, port: int) -> list[dict[str, Any]]:
    """Write TF_CONFIG as the operator does, with the index as a variable that Kubernetes fills in."""
    if count == 1:  # then the operator sets nothing
        return []
    workers = ",".join(f'"{each}:{port}"' for each in _pods(name, count))
    task = f'{{"type":"worker","index":$({_RANK})}}'
    config = f'{{"cluster":{{"worker":[{workers}]}},"task":{task},"environment":"cloud"}}'
    return [targets.index(_RANK), *_texts({"TF_CONFIG": config})]


def _texts(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


KINDS: Mapping[str, Kind] = {
    "JAXJob": Kind("jaxReplicaSpecs", ("Worker",), "jax", 6666, "jax", _of_jax),
    "XGBoostJob": Kind("xgbReplicaSpecs", ("Master", "Worker"), "xgboost", 9999, "xgboost", _of_xgboost),
    "TFJob": Kind("tfReplicaSpecs", ("Worker",), "tensorflow", 2222, "tensorflow", _of_tensorflow, is_known=False),
}
"""What is said about each kind."""
