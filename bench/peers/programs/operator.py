"""The change of `bench.peers.changes` as a handler of kopf, which runs this file in an environment of its own.

PEER_PORT and PEER_CERTIFICATES in its environment name its TCP port on loopback, and the folder of its certificate.
"""

from __future__ import annotations

import copy
import os
from typing import Any

import kopf

_LABEL = "trainer.kubeflow.org/trainjob-ancestor-step"
_PORT = "29500"


@kopf.on.startup()
def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
    """Serve on loopback; the webhook configuration is written by the bench."""
    folder = os.environ["PEER_CERTIFICATES"]
    settings.admission.server = kopf.WebhookServer(
        addr="127.0.0.1",
        port=int(os.environ["PEER_PORT"]),
        host="127.0.0.1",
        cafile=f"{folder}/ca.crt",
        certfile=f"{folder}/tls.crt",
        pkeyfile=f"{folder}/tls.key",
    )


@kopf.on.mutate("jobset.x-k8s.io", "v1alpha2", "jobsets", id="mutate", operation="CREATE")
def mutate(body: kopf.Body, patch: kopf.Patch, **_: Any) -> None:
    """Give the training container torchrun as its launcher, and what torchrun needs to know."""
    jobs = copy.deepcopy(list(body["spec"]["replicatedJobs"]))
    changed = False
    for job in jobs:
        template = job["template"]
        if template.get("metadata", {}).get("labels", {}).get(_LABEL) != "trainer":
            continue
        for container in template["spec"]["template"]["spec"]["containers"]:
            if container["name"] == "node" and container.get("command") == ["trl", "sft"]:
                container["command"] = ["torchrun", "-m", "trl.scripts.sft"]
                container.setdefault("env", []).extend(_variables(body["metadata"]["name"], job, container))
                changed = True
    if changed:
        patch.spec["replicatedJobs"] = jobs


def _variables(name: str, job: dict[str, Any], container: dict[str, Any]) -> list[dict[str, Any]]:
    address = f"{name}-{job['name']}-0-0.{name}"
    nodes, gpus = job["template"]["spec"].get("completions", 1), int(container["resources"]["limits"]["nvidia.com/gpu"])
    rank = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}
    return [
        {"name": "PET_NNODES", "value": str(nodes)},
        {"name": "PET_NPROC_PER_NODE", "value": str(gpus)},
        {"name": "PET_NODE_RANK", "valueFrom": rank},
        {"name": "PET_MASTER_ADDR", "value": address},
        {"name": "PET_MASTER_PORT", "value": _PORT},
        {"name": "MASTER_ADDR", "value": address},
        {"name": "MASTER_PORT", "value": _PORT},
        {"name": "MUSTER_EXPECTED_WORLD_SIZE", "value": str(nodes * gpus)},
    ]
