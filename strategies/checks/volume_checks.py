"""Volumes: of one node or one pod that several pods mount, and those that no kubelet mounts.

Source: jobset `pkg/controllers/volume_claim_policy.go` (`volumeClaimPolicies`): one claim for all pods that
mount a volume of its name; kubernetes `pkg/volume/emptydir/empty_dir.go`.
Kubernetes "Persistent Volumes", access modes: ReadWriteOnce allows one node, ReadWriteOncePod one pod. Of a claim that
the pod names itself, only the commands on files know the modes (`named`); ephemeral volumes are one for each pod.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from muster.strategies.documents import loose, names, paths, quantities
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, find_spec, is_of_job, placed
from muster.strategies.launches import topologies

__all__ = ["check", "count", "named", "together"]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MANY = frozenset({"ReadWriteMany", "ReadOnlyMany"})
_ONE = frozenset({"ReadWriteOnce", "ReadWriteOncePod"})
_JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"
_LEFT = "so the others never start; use ReadWriteMany"
_ELSEWHERE = "pods on other nodes never start; use ReadWriteMany"
_UNSIZED = "a volume claim asks for storage, or the API server refuses it; add requests: {storage: 10Gi}"
_Verdict = tuple[Callable[..., Finding], str, str]
_JOB_LABEL = "jobset.sigs.k8s.io/replicatedjob-name"


def check(job: Job, replicated: Sequence[Template]) -> Iterator[Finding]:
    """Check the volumes of a JobSet, or of the JobSet that a TrainJob will become.

    Args:
        job: the job as it will be stored.
        replicated: its replicated jobs.
    """
    document, start = find_spec(job)
    claims = list(_claims(document, start))
    for template in replicated:
        for index, volume in enumerate(loose.items(template.raw_spec, "volumes")):
            for member, value, message in _empty(loose.mapping(volume.get("emptyDir"))):
                field = template.field("volumes", index, "emptyDir", member)
                yield _told(job, error(field, value, message, rule="core/volume-source"))
    if claims:
        yield from _unused(job, replicated, document, claims)
    crowds = _crowds(job, together(replicated)) if claims else {}
    for path, claim in claims:
        field, modes = (
            paths.field(document, (*path, "spec", "accessModes")),
            loose.mapping(claim.get("spec")).get("accessModes"),
        )
        if isinstance(modes, list) and modes:
            name = loose.mapping(claim.get("metadata")).get("name")
            found: Iterable[_Verdict] = crowds.get(str(name), _Crowd()).judged(modes)
        else:
            message = "a volume claim needs at least one access mode, so the API server refuses it; add accessModes"
            found = ((error, message, "core/volume-claim"),)
        for make, message, rule in found:
            yield _told(job, make(field, modes, message, rule=rule))
        if "storage" not in loose.member(claim, "spec", "resources", "requests"):
            place = paths.field(document, (*path, "spec", "resources", "requests"))
            yield _told(job, error(place, None, _UNSIZED, rule="core/volume-claim"))


def named(job: Job, replicated: Sequence[Template], modes: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Check the PersistentVolumeClaims that pods name themselves.

    Args:
        job: the job as it will be stored.
        replicated: its replicated jobs.
        modes: access modes of the claims that are known, by name.
    """
    users: dict[str, list[tuple[Template, int]]] = {}
    for template in together(replicated):
        for index, volume in enumerate(loose.mappings(template.raw_spec.get("volumes"))):
            name = loose.mapping(volume.get("persistentVolumeClaim")).get("claimName")
            if isinstance(name, str) and modes.get(name):
                users.setdefault(name, []).append((template, index))
    for name, found in users.items():
        mounting = list({each.path: each for each, _ in found}.values())
        if not _are_of_one_node(mounting):
            field = found[0][0].field("volumes", found[0][1], "persistentVolumeClaim", "claimName")
            for make, message, rule in _Crowd.of(job, mounting).judged(modes[name]):
                yield _told(job, make(field, name, message, rule=rule))


def _are_of_one_node(templates: Sequence[Template]) -> bool:
    """Whether the pods are bound to one node by its name, or to the node of another pod."""
    hosts = {
        loose.mapping(each.raw_spec.get("nodeSelector")).get(names.HOSTNAME_LABEL) or each.raw_spec.get("nodeName")
        for each in templates
    }
    return (len(hosts) == 1 and None not in hosts) or all(_follows(each) for each in templates)


def _follows(template: Template) -> bool:
    affinity = loose.member(template.raw_spec.get("affinity"), "podAffinity")
    return any(term.get("topologyKey") == names.HOSTNAME_LABEL for term in loose.mappings(affinity.get(_REQUIRED)))


def _empty(source: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """Yield what is wrong with an emptyDir: member, value and message."""
    size, medium = source.get("sizeLimit"), source.get("medium")
    if size is not None and 0 < _amount(size) < _LEAST:
        message = f"is {float(_amount(size)):g} bytes, in which nothing fits; write the unit, such as 64Gi"
        yield "sizeLimit", size, message
    if isinstance(medium, str) and medium not in _MEDIA and not medium.startswith("HugePages-"):
        near = next((each for each in _MEDIA[1:] if each.lower() == medium.lower()), "")
        hint = f"; {near} may be meant" if near else "; use Memory, or remove it"
        yield "medium", medium, f"is not a medium that the kubelet knows, so the pod never starts{hint}"


_MEDIA = ("", "Memory", "HugePages")
_LEAST = 2**20  # bytes


def _amount(written: object) -> Fraction | int:
    try:
        return quantities.value(written) if isinstance(written, str | int) else 0
    except ValueError:
        return 0  # the API server says so at once


def _unused(
    job: Job, replicated: Sequence[Template], document: Mapping[str, Any], claims: Sequence[tuple[paths.Path, Any]]
) -> Iterator[Finding]:
    """Report claims that no container mounts, or whose name a volume has (validateReplicatedJobsVolumeClaims)."""
    mounted = {str(name) for each in replicated for _, name in _mounting(each.raw_spec)}
    taken = set[Any]().union(*(_held(each) for each in replicated))
    for path, claim in claims:
        name = loose.mapping(claim.get("metadata")).get("name")
        wrong = "no container mounts it" if str(name) not in mounted else ""
        wrong = "a volume of the pods has this name too" if str(name) in taken else wrong
        if name is not None and wrong:
            field = paths.field(document, (*path, "metadata", "name"))
            message = (
                f"{wrong}, so JobSet refuses the job; {'rename one' if str(name) in taken else 'mount or remove it'}"
            )
            yield _told(job, error(field, name, message, rule="core/volume-claim"))


def _held(template: Template) -> set[Any]:
    """Return the names of the volumes of a pod."""
    return {str(each.get("name")) for each in loose.mappings(template.raw_spec.get("volumes"))}


def _mounting(spec: Mapping[str, Any]) -> Iterator[tuple[paths.Path, Any]]:
    """Yield the mounts of all containers of a pod, each with the name of its volume."""
    for member in ("containers", "initContainers"):
        for index, each in enumerate(loose.mappings(spec.get(member))):
            for number, mount in enumerate(loose.mappings(each.get("volumeMounts"))):
                yield (member, index, "volumeMounts", number, "name"), mount.get("name")


def together(templates: Sequence[Template]) -> list[Template]:
    """Return the replicated jobs that run at the same time: those that no other one waits for, and no initializers."""
    ended = {
        str(each.get("name"))
        for template in templates
        for each in loose.mappings(template.raw.get("dependsOn"))
        if each.get("status") == "Complete"
    }
    return [each for each in templates if str(each.raw.get("name")) not in ended and not each.is_initializer]


def _claims(document: Mapping[str, Any], start: paths.Path) -> Iterator[tuple[paths.Path, Mapping[str, Any]]]:
    """Yield the claim templates of the JobSetSpec with their paths."""
    for number, policy in enumerate(loose.mappings(paths.lookup(document, (*start, "volumeClaimPolicies")))):
        for index, claim in enumerate(loose.mappings(policy.get("templates"))):
            yield (*start, "volumeClaimPolicies", number, "templates", index), claim


class _Crowd(Struct, frozen=True):
    """Replicated jobs that mount one volume at the same time.

    Attributes:
        count: their pods.
        apart: whether pods of one of them certainly run on different nodes.
    """

    count: int = 0
    apart: bool = False

    @classmethod
    def of(cls, job: Job, templates: Iterable[Template]) -> _Crowd:
        """Return those of some replicated jobs."""
        pods = [(each, count(job, each)) for each in templates]
        return cls(sum(count for _, count in pods), any(count > 1 and _are_apart(job, each) for each, count in pods))

    def judged(self, modes: Sequence[Any]) -> Iterator[_Verdict]:
        """Judge the access modes of the volume."""
        rule = "core/shared-volume"
        known = {each for each in modes if isinstance(each, str)}
        if self.count <= 1 or _MANY & known or not _ONE & known:
            return
        if "ReadWriteOncePod" in modes:
            yield error, f"only one of the {self.count} pods can have this volume, {_LEFT}", rule
        elif self.apart:
            told = f"the {self.count} pods run on different nodes, and only one node can have this volume, {_LEFT}"
            yield error, told, rule
        else:
            yield warning, f"only one node can have this volume, and {self.count} pods mount it; {_ELSEWHERE}", rule


def _crowds(job: Job, templates: Sequence[Template]) -> dict[str, _Crowd]:
    """Return those of each volume by its name; each replicated job is looked at once."""
    users: dict[str, _Crowd] = {}
    for template in templates:
        mine = _Crowd.of(job, [template])
        for name in {str(name) for _, name in _mounting(template.raw_spec)}:
            other = users.get(name, _Crowd())
            users[name] = _Crowd(other.count + mine.count, other.apart or mine.apart)
    return users


def _are_apart(job: Job, template: Template) -> bool:
    """Whether pods of the template certainly refuse to share a node with each other."""
    affinity = loose.member(template.raw_spec.get("affinity"), "podAntiAffinity")
    own, _ = next(template.metadata("labels"))
    labels = {**own, _JOB_LABEL: template.raw.get("name"), _JOBSET_LABEL: job.name}
    for term in loose.mappings(affinity.get(_REQUIRED)):
        selector = term.get("labelSelector")
        if term.get("topologyKey") != names.HOSTNAME_LABEL or not isinstance(selector, dict):
            continue
        if (
            not selector.get("matchExpressions")
            and loose.mapping(selector.get("matchLabels")).items() <= labels.items()
        ):
            return True
    return False


def count(job: Job, template: Template) -> int:
    """Return the number of pods of a replicated job that run at once."""
    return topologies.pods_of_replicated_job(job, template.job)


def _told(job: Job, finding: Finding) -> Finding:
    """Report a finding about a runtime's volume on the TrainJob: at its number of nodes, else at its runtime."""
    nodes = job.raw_trainer.get("numNodes") or 1
    if not is_of_job(job, finding.field) and nodes > 1 and finding.rule == "core/shared-volume" and job.runtime:
        message = f"{finding.message} ({job.runtime.kind} {finding.field})"  # kubectl truncates warnings at their end
        return dataclasses.replace(finding, field="spec.trainer.numNodes", value=nodes, message=message)
    return placed(job, finding)
