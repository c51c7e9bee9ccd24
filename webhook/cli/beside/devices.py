"""Devices: claims of volumes of the input that are a device and are mounted as a folder, or the other way round.

Such a pod is made, and its containers never start (kubernetes v1.36.3
`pkg/kubelet/volumemanager/populator/desired_state_of_world_populator.go`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from strategies.documents.findings import Finding, error
from strategies.jobs.jobs import Job
from webhook.cli.beside import places
from webhook.cli.beside.inputs import Inputs, items, member

__all__ = ["check"]

_RULE = "core/volume-mode"
_CLAIM = "PersistentVolumeClaim"


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report mounts of block devices, and devices that are file systems."""
    for held in places.containers(job):
        volumes = places.volumes(job, held.template)
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


def _mode(inputs: Inputs, namespace: str, name: Any) -> str:
    """Return the mode of a claim of the input, "" where there is none or several (SetDefaults: Filesystem)."""
    found = inputs.named(_CLAIM, namespace, name)
    return str(member(found[0].document, "spec").get("volumeMode") or "Filesystem") if len(found) == 1 else ""
