"""Volumes: of one node or one pod that several pods mount, and those that no kubelet mounts.

Source: jobset `pkg/controllers/volume_claim_policy.go` (`volumeClaimPolicies`): one claim for all pods that
mount a volume of its name; kubernetes `pkg/volume/emptydir/empty_dir.go`.
Kubernetes "Persistent Volumes", access modes: ReadWriteOnce allows one node, ReadWriteOncePod one pod. Of a claim that
the pod names itself, only the commands on files know the modes (`named`); ephemeral volumes are one for each pod.

Checkpoints: a setting that lets a process of each node write the same files, where the nodes share the folder.

transformers saves on the first process of each node with `save_on_each_node` (5.23 `training_args.py` should_save:
"should not be activated when the different nodes use the same storage"); the scripts of TRL, ms-swift and LLaMA-Factory
take the same arguments. DeepSpeed does so with `checkpoint.use_node_local_storage` (`runtime/engine.py`).
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

from msgspec import Struct

from muster.strategies.documents import names, paths, pods, quantities
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.model import ClaimTemplate, EmptyDir, JobSetSpec, PodSpec, Storage, Volume
from muster.strategies.documents.paths import Path
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template, find_spec, find_template, is_of_job, placed
from muster.strategies.launches import sites, topologies

__all__ = ["RULE", "check", "check_outputs", "count", "named", "settings_of", "together", "why"]


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
    for template in replicated:
        for index, volume in enumerate(template.pod.volumes):
            for member, value, message in _empty(volume.empty_dir or EmptyDir()):
                field = template.field("volumes", index, "emptyDir", member)
                yield _told(job, error(field, value, message, rule="core/volume-source"))
    claims = list(_claims(job.jobset, start))
    if claims:
        yield from _unused(job, replicated, document, claims)
    crowds = _crowds(job, together(replicated)) if claims else {}
    for path, claim in claims:
        modes = claim.spec.access_modes
        if modes:
            found: Iterable[_Verdict] = crowds.get(claim.metadata.name, _Crowd()).judged(modes)
        else:
            message = "a volume claim needs at least one access mode, so the API server refuses it; add accessModes"
            found = ((error, message, "core/volume-claim"),)
        for make, message, rule in found:
            field = paths.field(document, (*path, "spec", "accessModes"))
            yield _told(job, make(field, list(modes) or None, message, rule=rule))
        if "storage" not in claim.spec.resources.requests:
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
        for index, volume in enumerate(template.pod.volumes):
            name = volume.persistent_volume_claim.claim_name if volume.persistent_volume_claim else ""
            if modes.get(name):
                users.setdefault(name, []).append((template, index))
    for name, found in users.items():
        mounting = list({each.path: each for each, _ in found}.values())
        if not _are_of_one_node(mounting):
            field = found[0][0].field("volumes", found[0][1], "persistentVolumeClaim", "claimName")
            for make, message, rule in _Crowd.of(job, mounting).judged(modes[name]):
                yield _told(job, make(field, name, message, rule=rule))


def _are_of_one_node(templates: Sequence[Template]) -> bool:
    """Whether the pods are bound to one node by its name, or to the node of another pod."""
    hosts = {each.pod.node_selector.get(names.HOSTNAME_LABEL) or each.pod.node_name for each in templates}
    return (len(hosts) == 1 and "" not in hosts) or all(
        any(term.topology_key == names.HOSTNAME_LABEL for term in each.pod.affinity.pod_affinity.required)
        for each in templates
    )


def _empty(source: EmptyDir) -> Iterator[tuple[str, Any, str]]:
    """Yield what is wrong with an emptyDir: member, value and message."""
    size, medium = source.size_limit, source.medium
    if size is not None and 0 < _amount(size) < _LEAST:
        message = f"is {float(_amount(size)):g} bytes, in which nothing fits; write the unit, such as 64Gi"
        yield "sizeLimit", size, message
    if medium not in _MEDIA and not medium.startswith("HugePages-"):
        near = next((each for each in _MEDIA[1:] if each.lower() == medium.lower()), "")
        hint = f"; {near} may be meant" if near else "; use Memory, or remove it"
        yield "medium", medium, f"is not a medium that the kubelet knows, so the pod never starts{hint}"


_MEDIA = ("", "Memory", "HugePages")
_LEAST = 2**20  # bytes


def _amount(written: float | str) -> Fraction | int:
    try:
        return quantities.value(written) if isinstance(written, str | int) else 0
    except ValueError:
        return 0  # the API server says so at once


def _unused(
    job: Job, replicated: Sequence[Template], document: Mapping[str, Any], claims: Sequence[tuple[Path, ClaimTemplate]]
) -> Iterator[Finding]:
    """Report claims that no container mounts, or whose name a volume has (validateReplicatedJobsVolumeClaims)."""
    mounted = {name for each in replicated for name in _mounted(each)}
    taken = {volume.name for each in replicated for volume in each.pod.volumes}
    for path, claim in claims:
        name = claim.metadata.name
        wrong, cure = "", ""
        if name in taken:
            wrong, cure = "a volume of the pods has this name too", "rename one"
        elif name not in mounted:
            wrong, cure = "no container mounts it", "mount or remove it"
        if name and wrong:
            field = paths.field(document, (*path, "metadata", "name"))
            message = f"{wrong}, so JobSet refuses the job; {cure}"
            yield _told(job, error(field, name, message, rule="core/volume-claim"))


def _mounted(template: Template) -> set[str]:
    """Return the names of the volumes that containers of a pod mount."""
    every = (*template.pod.containers, *template.pod.init_containers)
    return {mount.name for each in every for mount in each.volume_mounts}


def together(templates: Sequence[Template]) -> list[Template]:
    """Return the replicated jobs that run at the same time: those that no other one waits for, and no initializers."""
    ended = {item.name for each in templates for item in each.job.depends_on if item.status == "Complete"}
    return [each for each in templates if each.job.name not in ended and not each.is_initializer]


def _claims(spec: JobSetSpec, start: Path) -> Iterator[tuple[Path, ClaimTemplate]]:
    """Yield the claim templates of the JobSetSpec with their paths."""
    for number, policy in enumerate(spec.volume_claim_policies):
        for index, claim in enumerate(policy.templates):
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

    def judged(self, modes: Sequence[str]) -> Iterator[_Verdict]:
        """Judge the access modes of the volume."""
        rule = "core/shared-volume"
        if self.count <= 1 or not _MANY.isdisjoint(modes) or _ONE.isdisjoint(modes):
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
        for name in _mounted(template):
            other = users.get(name, _Crowd())
            users[name] = _Crowd(other.count + mine.count, other.apart or mine.apart)
    return users


def _are_apart(job: Job, template: Template) -> bool:
    """Whether pods of the template certainly refuse to share a node with each other."""
    own = template.job.template.spec.template.metadata.labels
    labels = {**own, _JOB_LABEL: template.job.name, _JOBSET_LABEL: job.name}
    return any(
        term.topology_key == names.HOSTNAME_LABEL
        and term.label_selector is not None
        and not term.label_selector.match_expressions
        and term.label_selector.match_labels.items() <= labels.items()
        for term in template.pod.affinity.pod_anti_affinity.required
    )


def count(job: Job, template: Template) -> int:
    """Return the number of pods of a replicated job that run at once."""
    return topologies.pods_of_replicated_job(job, template.job)


def _told(job: Job, finding: Finding) -> Finding:
    """Report a finding about a runtime's volume on the TrainJob: at its number of nodes, else at its runtime."""
    nodes = job.trainer.num_nodes or 1
    if not is_of_job(job, finding.field) and nodes > 1 and finding.rule == "core/shared-volume" and job.runtime:
        message = f"{finding.message} ({job.runtime.kind} {finding.field})"  # kubectl truncates warnings at their end
        return dataclasses.replace(finding, field="spec.trainer.numNodes", value=nodes, message=message)
    return placed(job, finding)


RULE = "core/shared-output"
_FLAG, _FOLDER, _DEFAULT = "save_on_each_node", "output_dir", "trainer_output"
_LONGEST = 4_096  # characters of a path, as Linux takes them
_FALSE = frozenset({"false", "no", "n", "f", "0", "off", "none", ""})


def check_outputs(job: Job) -> Iterator[Finding]:
    """Report the flag on a launch of several nodes whose output folder is on a volume that they share."""
    if job.owner is not None or job.container is None or topologies.pods_of(job) < 2:
        return
    site = sites.find_site(job)
    for launch in site.reading.launches if site is not None else ():
        settings = settings_of(launch.rest)
        message = why(job, settings) if _FLAG in settings else ""
        if message and site is not None:
            yield warning(site.locate_option(launch, _FLAG), f"--{_FLAG}", message, rule=RULE)


def settings_of(words: Sequence[str]) -> Mapping[str, str]:
    """Return what flags say of where and by whom is saved; later ones win, and a flag without a value is true."""
    found: dict[str, str] = {}
    for index, word in enumerate(words):
        name, equals, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if word.startswith("--") and name in (_FLAG, _FOLDER):
            behind = words[index + 1] if index + 1 < len(words) else ""
            found[name] = value if equals else "true" if not behind or behind.startswith("--") else behind
    return found


def why(job: Job, settings: Mapping[str, Any]) -> str:
    """Return why nodes overwrite each other's files, as a sentence; "" where they do not, or it is not known.

    Args:
        job: the job; its container launches the training.
        settings: `save_on_each_node` and `output_dir`, as flags or as members of a file of settings.
    """
    place, nodes = job.container, topologies.read_topology(job).nodes
    folder = settings.get(_FOLDER, _DEFAULT)
    if place is None or nodes < 2 or str(settings.get(_FLAG)).lower() in _FALSE or not isinstance(folder, str):
        return ""
    if "$" in folder or len(folder) > _LONGEST:
        return ""
    path = posixpath.normpath(posixpath.join(place.container.working_dir, folder))
    template = find_template(job, place.job_path)
    mount = pods.holding(path, place.container.volume_mounts) if path.startswith("/") else None
    if mount is None or template is None or not pods.is_shared(mount, _volumes(job, template.pod)):
        return ""
    return (
        f"a process of each of the {nodes} nodes writes the same files into the volume at {mount.mount_path}, which "
        "the nodes share, and the nodes overwrite each other's files; remove it, or save to a volume of each pod"
    )


def _volumes(job: Job, pod: PodSpec) -> Iterable[Volume]:
    """Yield the volumes of a pod, and those that JobSet makes: one for all pods that mount it."""
    yield from pod.volumes
    for policy in job.jobset.volume_claim_policies:
        for each in policy.templates:
            yield Volume(name=each.metadata.name, persistent_volume_claim=Storage())
