"""Devices: claims of volumes of the input that the API server refuses, or that are no folder where one is mounted.

A pod that mounts a block device as a folder is made, and its containers never start (kubernetes v1.36.3
`pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go`). A pod waits for a claim that was refused
(`pkg/apis/core/validation/validation.go` ValidatePersistentVolumeClaimSpec).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.checks import sources
from muster.strategies.documents.findings import Finding, beginning, error
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.webhook.cli.beside import places
from muster.webhook.cli.beside.inputs import Inputs, items, member

__all__ = ["check"]

_RULE = "core/volume-mode"
_CLAIM = "PersistentVolumeClaim"


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report claims that are refused, mounts of block devices, and devices that are file systems."""
    for template in templates.list_templates(job):
        for index, volume in enumerate(items(template.spec, "volumes")):
            name = member(volume, "persistentVolumeClaim").get("claimName")
            found = inputs.named(_CLAIM, job.namespace, name)
            message = _refused(member(found[0].document, "spec")) if len(found) == 1 else ""
            if message:
                place = ("volumes", index, "persistentVolumeClaim", "claimName")
                said = f"this claim of the input {message}, so the API server refuses it and the pods wait; correct it"
                finding = error(template.field(*place), name, said, rule="core/volume-claim")
                yield templates.placed(job, finding)
    for held in places.containers(job):
        volumes = places.volumes(held.template)
        mounted = [("volumeMounts", "mountPath", each) for each in held.mounts()]
        mounted += [("volumeDevices", "devicePath", each) for each in items(held.container, "volumeDevices")]
        for part, path, each in mounted:
            volume = volumes.get(each.get("name"), {})
            mode = _mode(inputs, job.namespace, member(volume, "persistentVolumeClaim").get("claimName"))
            if mode == "Block" and part == "volumeMounts":
                message = "is mounted as a folder, and its claim is a block device; use volumeDevices, or another claim"
            elif mode == "Filesystem" and part == "volumeDevices":
                message = (
                    "is used as a block device, and its claim is a file system; use volumeMounts, or another claim"
                )
            else:
                continue
            yield held.report(error, part, each.get(path), f"{message}: the containers never start", _RULE)


def _refused(spec: Mapping[str, Any]) -> str:
    modes = spec.get("accessModes")
    if isinstance(modes, list) and _ONE_POD in modes and len(modes) > 1:
        return f"has {_ONE_POD} beside other access modes"
    unknown = [each for each in modes if each not in _MODES] if isinstance(modes, list) else []
    if unknown:
        return f"has the access mode {beginning(str(unknown[0]), 40)}, which does not exist"
    return "" if sources.lists_storage(spec) else "does not say how much storage it asks for"


_ONE_POD = "ReadWriteOncePod"
_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", _ONE_POD)


def _mode(inputs: Inputs, namespace: str, name: Any) -> str:
    """Return the mode of a claim of the input, "" where there is none or several (SetDefaults: Filesystem)."""
    found = inputs.named(_CLAIM, namespace, name)
    return str(member(found[0].document, "spec").get("volumeMode") or "Filesystem") if len(found) == 1 else ""
