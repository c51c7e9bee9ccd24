"""Pods: the replicas of a job of the old operators, and one pod template that stands for all of them.

All nodes of a TrainJob run the same pod. Where the templates of two replicas differ, the first one (that of rank 0)
wins, what only the other has is added, the larger resources stay, and each difference is noted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct

from muster.strategies.documents import decoding, quantities
from muster.strategies.documents.model import Quantity
from muster.webhook.cli.migrations import old_kinds
from muster.webhook.cli.migrations.migration_notes import Notes
from muster.webhook.cli.migrations.old_kinds import Document, OldReplica, Raw, Unmigrated

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
        template: its pod template, a copy without null members.
    """

    role: str
    at: str
    count: int
    restart: str
    template: Document

    @property
    def containers(self) -> list[Document]:
        """The containers, the main one first."""
        found: list[Document] = self.template["spec"]["containers"]
        return found

    @property
    def main(self) -> Document:
        """The main container."""
        return self.containers[0]


def read(
    document: Raw, member: str, roles: Sequence[str], container: str, restarts: Mapping[str, str]
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
    replicas = decoding.member(document, "spec", member)
    for name, raw in replicas.items():
        at, role = f"spec.{member}.{name}", named.get(name.lower())
        if role is None:
            raise Unmigrated(
                f"{at}: a TrainJob has one kind of node, and no role {name}; write a JobSet with one replicated "
                f"job for each of {', '.join(replicas)}"
            )
        replica = old_kinds.read(raw, OldReplica, f"{at}.")
        template = _with_main(decoding.member(raw, "template"), f"{at}.template", container)
        if replica.replicas > 0:
            policy = replica.restart_policy or restarts.get(role, "Never")
            found.append(Replica(role, at, replica.replicas, policy, template))
    if not found:
        raise Unmigrated(f"spec.{member}: has no replica with a pod; write {' or '.join(roles)}")
    return sorted(found, key=lambda each: list(roles).index(each.role))


def _with_main(written: Raw, at: str, wanted: str) -> Document:
    """Return a copy of a pod template whose first container is the main one, called `node`."""
    template: Document = _whole(written)
    about = {each: value for each, value in template.get("metadata", {}).items() if value}
    spec = template.get("spec", {})
    containers = spec.get("containers", [])
    found = next((each for each in containers if each.get("name") == wanted or not wanted), None)
    if found is None:
        missing = f"no container has the name {wanted}, which the operator looks for" if containers else "is empty"
        raise Unmigrated(f"{at}.spec.containers: {missing}; correct it, then migrate")
    found["name"] = "node"
    spec = {**spec, "containers": [found, *(each for each in containers if each is not found)]}
    spec.pop("restartPolicy", None)
    return {**({"metadata": about} if about else {}), "spec": spec}


def _whole(value: Any) -> Any:
    """Return a copy without null members, as Go writes them for what is missing."""
    match value:
        case dict():
            return {name: _whole(each) for name, each in value.items() if each is not None}
        case list():
            return [_whole(each) for each in value]
    return value


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

    def objects(self, first: Document, other: Document, at: str) -> Document:
        merged = dict(first)
        for name in dict.fromkeys((*first, *other)):
            mine, theirs, where = first.get(name), other.get(name), f"{at}.{name}"
            if mine == theirs:
                continue
            if at.endswith((".requests", ".limits")):
                merged[name] = self._larger(mine, theirs, where)
                continue
            match mine, theirs:
                case _ if name in _PROGRAM:
                    self._lost(where)
                case _, None:
                    self._added(where, self._first)
                case _ if mine in (None, [], {}):
                    merged[name] = theirs
                    self._added(where, self._other)
                case dict(), dict():
                    merged[name] = self.objects(mine, theirs, where)
                case list(), list() if name in _KEYS:
                    merged[name] = self._lists(mine, theirs, where, _KEYS[name])
                case _:
                    self._lost(where)
        return merged

    def _lists(self, first: list[Document], other: list[Document], at: str, key: str) -> list[Document]:
        theirs = {each.get(key): each for each in other}
        merged = []
        for number, each in enumerate(first):
            match, where = theirs.pop(each.get(key), None), f"{at}[{number}]"
            if match is None:
                self._added(where, self._first)
            merged.append(each if match is None else self.objects(each, match, where))
        for each in theirs.values():
            self._added(f"{at} ({key} {each.get(key)})", self._other)
        return [*merged, *theirs.values()]

    def _lost(self, at: str) -> None:
        self._notes.lost(at, f"{_ALL}; that of the {self._first} is written, and not that of the {self._other}")

    def _added(self, at: str, role: str) -> None:
        self._notes.changed(at, "spec.runtimeRef", f"Only the {role} had it; all nodes have it now.")

    def _larger(self, mine: Quantity | None, theirs: Quantity | None, at: str) -> Quantity:
        try:
            larger = max((each for each in (mine, theirs) if each is not None), key=quantities.exact)
        except ValueError as error:
            raise Unmigrated(f"{at}: is not a quantity; correct it, then migrate") from error
        text = (
            f"The {self._first} had {mine or 'none'} and the {self._other} {theirs or 'none'}; all nodes have {larger}."
        )
        self._notes.changed(at, "spec.trainer.resourcesPerNode", text)
        return larger


def rename(text: str, names: Renamed) -> str:
    """Return a text with the addresses of old pods replaced."""
    for pattern, name in names:
        text = pattern.sub(name, text)
    return text


def readdress(replica: Replica, names: Renamed, notes: Notes) -> Document:
    """Replace the addresses of old pods in what the containers are told, and return the main container."""
    before = _whole(replica.template)
    for each in (*replica.containers, *replica.template["spec"].get("initContainers", ())):
        each.update(
            {part: [rename(word, names) for word in each[part]] for part in ("command", "args") if part in each}
        )
        for entry in each.get("env", ()):
            entry.update({"value": rename(entry["value"], names)} if "value" in entry else {})
    if replica.template != before:
        text = "Addresses of old pods became those of the TrainJob's pods."
        notes.changed(f"{replica.at}.template", "spec.trainer", text)
    return replica.main


def set_env(container: Document, entries: Sequence[Document]) -> list[str]:
    """Add variables to a container, and return those that replaced an entry, as the operators' entries did."""
    new = {each["name"] for each in entries}
    present = container.get("env", [])
    if entries:
        container["env"] = [*(each for each in present if each.get("name") not in new), *map(dict, entries)]
    return [each["name"] for each in present if each.get("name") in new]


def drop_env(container: Document, reserved: Collection[str]) -> list[str]:
    """Take variables away that Trainer sets, and refuses in a TrainJob; return the names of those that were there."""
    present = container.get("env", [])
    dropped = [each["name"] for each in present if each.get("name") in reserved]
    if dropped:
        container["env"] = [each for each in present if each.get("name") not in reserved]
    return dropped


def uses(container: Document, names: Sequence[str]) -> bool:
    """Whether the command or the variables of a container refer to one of these variables."""
    pattern = re.compile(rf"\$[({{]?({'|'.join(names)})\b")
    return any(pattern.search(text) for text in _texts([container.get(each) for each in ("command", "args", "env")]))


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for each in value:
                yield from _texts(each)
        case dict():
            yield from _texts(list(value.values()))
