"""Pods: the replicas of a job of the old operators, and one pod template that stands for all of them.

All nodes of a TrainJob run the same pod. Where the templates of two replicas differ, the first one (that of rank 0)
wins, what only the other has is added, the larger resources stay, and each difference is noted.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from muster.strategies.documents import quantities
from muster.webhook.cli.migrations import migration_notes
from muster.webhook.cli.migrations.migration_notes import Notes, Unmigrated, path

__all__ = ["Renamed", "Replica", "drop_env", "merge", "read", "readdress", "rename", "set_env", "uses"]

_KEYS = {
    "containers": "name", "initContainers": "name", "env": "name", "volumes": "name", "volumeMounts": "mountPath",
    "ports": "containerPort", "imagePullSecrets": "name",
}  # fmt: skip
Renamed: TypeAlias = Sequence[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]]
"""Patterns of the addresses of old pods, and what each becomes."""
_PROGRAM = ("image", "command", "args")
_ALL = "a TrainJob's nodes all run the same pod"


class Replica(Struct):
    """One entry of `pytorchReplicaSpecs` and its like.

    Attributes:
        role: `Master`, as its operator spells it.
        at: where it is in the document.
        count: number of its pods.
        restart: its restart policy.
        template: its pod template, a copy.
    """

    role: str
    at: str
    count: int
    restart: str
    template: dict[str, Any]

    @property
    def containers(self) -> list[dict[str, Any]]:
        """The containers, the main one first."""
        found: list[dict[str, Any]] = self.template["spec"]["containers"]
        return found

    @property
    def main(self) -> dict[str, Any]:
        """The main container."""
        return self.containers[0]


def read(
    document: Mapping[str, Any], member: str, roles: Sequence[str], container: str, restarts: Mapping[str, str]
) -> list[Replica]:
    """Return the replicas of a job, in the order of the roles; those without pods are left out.

    Args:
        document: the job.
        member: `pytorchReplicaSpecs`.
        roles: the roles that can be migrated.
        container: the name of the main container; "" where it is the first one.
        restarts: the operator's default of `restartPolicy` by role, where it is not Never.

    Raises:
        Unmigrated: a role cannot be migrated, or a template has no main container.
    """
    named = {role.lower(): role for role in roles}
    found = []
    for name in migration_notes.section(document, "spec", member):
        at = ("spec", member, name)
        role = named.get(name.lower())
        if role is None:
            raise Unmigrated(
                f"{path(at)}: a TrainJob has one kind of node, and no role {name}; write a JobSet with one replicated "
                f"job for each of {', '.join(migration_notes.section(document, 'spec', member))}"
            )
        count = migration_notes.integer(document, *at, "replicas", default=1)
        template = copy.deepcopy(migration_notes.section(document, *at, "template"))
        about = migration_notes.section(template, "metadata")  # written by Go, it has a creationTimestamp of null
        about = {each: value for each, value in about.items() if value}
        template = {**({"metadata": about} if about else {}), "spec": template.get("spec")}
        _put_main_first(template, path((*at, "template")), container)
        template["spec"].pop("restartPolicy", None)
        if count > 0:
            policy = migration_notes.string(document, *at, "restartPolicy") or restarts.get(role, "Never")
            found.append(Replica(role, path(at), count, policy, template))
    if not found:
        raise Unmigrated(f"spec.{member}: has no replica with a pod; write {' or '.join(roles)}")
    return sorted(found, key=lambda each: list(roles).index(each.role))


def _put_main_first(template: dict[str, Any], at: str, wanted: str) -> None:
    spec = migration_notes.section(template, "spec")
    containers = migration_notes.objects(spec.get("containers"), f"{at}.spec.containers")
    found = next((each for each in containers if each.get("name") == wanted or not wanted), None)
    if found is None:
        missing = f"no container has the name {wanted}, which the operator looks for" if containers else "is empty"
        raise Unmigrated(f"{at}.spec.containers: {missing}; correct it, then migrate")
    _check(spec, f"{at}.spec")
    found["name"] = "node"
    template["spec"] = {**spec, "containers": [found, *(each for each in containers if each is not found)]}
    (
        migration_notes.section(template, "metadata", "labels"),
        migration_notes.section(template, "metadata", "annotations"),
    )


def _check(value: Mapping[str, Any], at: str) -> None:
    """Raise where a part of a pod that is looked at has another type than in Kubernetes."""
    for member in ("command", "args"):
        migration_notes.typed(value, list, member)
    for member in ("requests", "limits"):
        migration_notes.section(value, "resources", member)
    for member, key in _KEYS.items():
        for number, each in enumerate(migration_notes.objects(value.get(member), f"{at}.{member}")):
            migration_notes.typed(each, int if key == "containerPort" else str, key)
            _check(each, f"{at}.{member}[{number}]")


def merge(replicas: Sequence[Replica], notes: Notes) -> Replica:
    """Return one replica that stands for all."""
    first, *others = replicas
    for other in others:
        if other.restart != first.restart:
            text = f"{_ALL}; {first.restart} of the {first.role} is written, and not {other.restart}"
            notes.lost(f"{other.at}.restartPolicy", text)
        first.template = _Merging(first.role, other.role, notes).objects(
            first.template, other.template, f"{other.at}.template"
        )
        first.count += other.count
    return first


class _Merging:
    """Merges the template of one role into that of another."""

    def __init__(self, first: str, other: str, notes: Notes) -> None:
        self._first, self._other, self._notes = first, other, notes

    def objects(self, first: Mapping[str, Any], other: Mapping[str, Any], at: str) -> dict[str, Any]:
        merged = dict(first)
        for name in dict.fromkeys((*first, *other)):
            mine, theirs, where = first.get(name), other.get(name), f"{at}.{name}"
            if mine == theirs:
                continue
            if at.endswith((".requests", ".limits")):
                merged[name] = self._larger(mine, theirs, where)
            elif name in _PROGRAM:
                self._lost(where)
            elif name not in first or mine in ([], {}, None):
                merged[name] = theirs
                self._added(where, self._other)
            elif name not in other:
                self._added(where, self._first)
            elif isinstance(mine, dict) and isinstance(theirs, dict):
                merged[name] = self.objects(mine, theirs, where)
            elif isinstance(mine, list) and isinstance(theirs, list) and name in _KEYS:
                merged[name] = self._lists(mine, theirs, where, _KEYS[name])
            else:
                self._lost(where)
        return merged

    def _lists(self, first: list[Any], other: list[Any], at: str, key: str) -> list[Any]:
        theirs = {each.get(key): each for each in other if isinstance(each, dict)}
        merged = []
        for number, each in enumerate(first):
            name = each.get(key) if isinstance(each, dict) else None
            match = theirs.pop(name, None)
            where = f"{at}[{number}]"
            if match is None:
                self._added(where, self._first)
            merged.append(self.objects(each, match, where) if match is not None else each)
        for each in theirs.values():
            self._added(f"{at} ({key} {each.get(key)})", self._other)
        return [*merged, *theirs.values()]

    def _lost(self, at: str) -> None:
        self._notes.lost(at, f"{_ALL}; that of the {self._first} is written, and not that of the {self._other}")

    def _added(self, at: str, role: str) -> None:
        self._notes.changed(at, "spec.runtimeRef", f"Only the {role} had it; all nodes have it now.")

    def _larger(self, mine: Any, theirs: Any, at: str) -> Any:
        try:
            larger = max((each for each in (mine, theirs) if each is not None), key=quantities.exact)
        except (ValueError, TypeError) as error:
            raise Unmigrated(f"{at}: is not a quantity; correct it, then migrate") from error
        text = (
            f"The {self._first} had {mine or 'none'} and the {self._other} {theirs or 'none'}; all nodes have {larger}."
        )
        self._notes.changed(at, "spec.trainer.resourcesPerNode", text)
        return larger


def rename(value: Any, names: Renamed) -> Any:
    """Return a text, or all texts of a list, with the addresses of old pods replaced."""
    if isinstance(value, list):
        return [rename(each, names) for each in value]
    for pattern, name in names if isinstance(value, str) else ():
        value = pattern.sub(name, value)
    return value


def readdress(replica: Replica, names: Renamed, notes: Notes) -> dict[str, Any]:
    """Replace the addresses of old pods in what the containers are told, and return the main container."""
    before = copy.deepcopy(replica.template)
    for each in (*replica.containers, *(replica.template["spec"].get("initContainers") or ())):
        each.update({member: rename(each[member], names) for member in ("command", "args") if member in each})
        for entry in each.get("env") or ():
            entry.update({"value": rename(entry["value"], names)} if "value" in entry else {})
    if replica.template != before:
        text = "Addresses of old pods became those of the TrainJob's pods."
        notes.changed(f"{replica.at}.template", "spec.trainer", text)
    return replica.main


def set_env(container: dict[str, Any], entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add variables to a container, and return those that replaced an entry, as the operators' entries did."""
    new = {each["name"] for each in entries}
    present = container.get("env") or []
    if entries:
        container["env"] = [*(each for each in present if each.get("name") not in new), *map(dict, entries)]
    return [each["name"] for each in present if each.get("name") in new]


def drop_env(container: dict[str, Any], reserved: Collection[str]) -> list[str]:
    """Take variables away that Trainer sets, and refuses in a TrainJob; return the names of those that were there."""
    dropped = [each["name"] for each in container.get("env") or () if each.get("name") in reserved]
    if dropped:
        container["env"] = [each for each in container["env"] if each.get("name") not in reserved]
    return dropped


def uses(container: Mapping[str, Any], names: Sequence[str]) -> bool:
    """Whether the command or the variables of a container refer to one of these variables."""
    pattern = re.compile(rf"\$[({{]?({'|'.join(names)})\b")
    return any(pattern.search(text) for text in _texts([container.get(each) for each in ("command", "args", "env")]))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (list, dict)):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)
