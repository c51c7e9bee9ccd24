"""Checkpoints: a setting that lets a process of each node write the same files, where the nodes share the folder.

transformers saves on the first process of each node with `save_on_each_node` (5.23 `training_args.py` should_save:
"should not be activated when the different nodes use the same storage"); the scripts of TRL, ms-swift and LLaMA-Factory
take the same arguments. DeepSpeed does so with `checkpoint.use_node_local_storage` (`runtime/engine.py`).
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import loose, mounts
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import find_spec, find_template
from muster.strategies.launches import sites, topologies

__all__ = ["RULE", "check", "settings_of", "why"]

RULE = "core/shared-output"
_FLAG, _FOLDER, _DEFAULT = "save_on_each_node", "output_dir", "trainer_output"
_LONGEST = 4_096  # characters of a path, as Linux takes them
_FALSE = frozenset({"false", "no", "n", "f", "0", "off", "none", ""})


def check(job: Job) -> Iterator[Finding]:
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
    path = posixpath.normpath(posixpath.join(str(place.raw.get("workingDir") or ""), folder))
    template = find_template(job, place.job_path)
    mount = mounts.holding(path, loose.mappings(place.raw.get("volumeMounts"))) if path.startswith("/") else None
    if mount is None or template is None or not mounts.is_shared(mount, _volumes(job, template.raw_spec)):
        return ""
    return (
        f"a process of each of the {nodes} nodes writes the same files into the volume at {mount['mountPath']}, which "
        "the nodes share, and the nodes overwrite each other's files; remove it, or save to a volume of each pod"
    )


def _volumes(job: Job, spec: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the volumes of a pod, and those that JobSet makes: one for all pods that mount it."""
    document, path = find_spec(job)
    inner: Any = document
    for member in path:
        inner = inner.get(member) or {}
    claims = [
        each
        for policy in loose.mappings(inner.get("volumeClaimPolicies"))
        for each in loose.mappings(policy.get("templates"))
    ]
    made: list[Mapping[str, Any]] = [
        {"name": (each.get("metadata") or {}).get("name"), mounts.CLAIM: {}} for each in claims
    ]
    return [*loose.mappings(spec.get("volumes")), *made]
