"""The shapes of the kinds that our manifests hold, written from the API facts of Trainer v2.3.0 and JobSet v0.12.0.

Only fields that a manifest of ours may want are listed: a new one is added here on purpose. What goes beyond fields (a
dependency on a job that exists, a label that Trainer needs) stands in `rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tests.manifests import shapes

__all__ = ["KINDS"]


def _matching(pattern: str, longest: int, said: str) -> Any:
    compiled = re.compile(pattern)

    def complaint(value: object) -> str:
        fits = isinstance(value, str) and len(value) <= longest and compiled.fullmatch(value)
        return "" if fits else f"is not {said}"

    return complaint


LABEL = _matching(r"[a-z]([-a-z0-9]*[a-z0-9])?", 63, "a DNS label of at most 63 characters")
SUBDOMAIN = _matching(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?", 253, "a DNS subdomain")
QUANTITY = _matching(r"\d+(\.\d+)?(m|k|[KMGT]i?)?", 30, "a quantity")
URI = _matching(r"[A-Za-z][A-Za-z0-9+.-]*://.+", 2048, "a URI with a scheme")
IMAGE = _matching(
    r"[a-z0-9.-]+\.[a-z]+(:\d+)?(/[a-z0-9._-]+)+:[\w.-]+|[a-z0-9]+/[a-z0-9]+:[\w.-]+", 500, "an image with a tag"
)
LABELS = {"*": _matching(r"([A-Za-z0-9]([\w.-]*[A-Za-z0-9])?)?", 63, "a label value")}


def _amount(value: object) -> str:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return "" if whole else QUANTITY(value)


RESOURCES = {"limits": {"*": _amount}, "requests": {"*": _amount}}
KEY_REFERENCE = {"name!": SUBDOMAIN, "key!": str}
ENV = [
    {
        "name!": _matching(r"[A-Za-z_]\w*", 100, "a variable name"),
        "value": str,
        "valueFrom": {
            "fieldRef": {"fieldPath!": str},
            "secretKeyRef": KEY_REFERENCE,
            "configMapKeyRef": KEY_REFERENCE,
        },
    }
]
MOUNTS = [{"name!": LABEL, "mountPath!": str, "readOnly": bool, "subPath": str}]
VOLUMES = [{"name!": LABEL, "configMap": {"name!": SUBDOMAIN}, "persistentVolumeClaim": {"claimName!": SUBDOMAIN}}]
TIMES = {"timeoutSeconds": int, "periodSeconds": int, "failureThreshold": int}
PROBE = {"httpGet": {"path!": str, "port!": int}, "exec": {"command!": [str]}, **TIMES}
CONTAINER = {
    "name!": LABEL,
    "image!": IMAGE,
    "command": [str],
    "args": [str],
    "env": ENV,
    "ports": [{"name": LABEL, "containerPort!": int}],
    "resources": RESOURCES,
    "volumeMounts": MOUNTS,
    "startupProbe": PROBE,
    "readinessProbe": PROBE,
    "livenessProbe": PROBE,
}
NODE_TERM = {"matchExpressions": [{"key!": str, "operator!": str, "values": [str]}]}
AFFINITY = {
    "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms!": [NODE_TERM]}},
}
POD = {
    "containers!": [CONTAINER],
    "initContainers": [CONTAINER],
    "volumes": VOLUMES,
    "restartPolicy": str,
    "affinity": AFFINITY,
}
TEMPLATE_METADATA = {"labels": LABELS, "annotations": {"*": str}}
EXIT_CODES = {"containerName": LABEL, "operator!": str, "values!": [int]}
FAILURE_POLICY = {"rules!": [{"action!": str, "onExitCodes": EXIT_CODES}]}
REPLICATED_JOBS = [
    {
        "name!": LABEL,
        "replicas": int,
        "dependsOn": [{"name!": LABEL, "status!": _matching("Ready|Complete", 8, "status: use Ready or Complete")}],
        "template!": {
            "metadata": TEMPLATE_METADATA,
            "spec!": {
                "parallelism": int,
                "completions": int,
                "backoffLimit": int,
                "podFailurePolicy": FAILURE_POLICY,
                "template!": {"metadata": TEMPLATE_METADATA, "spec!": POD},
            },
        },
    }
]
CLAIM = {
    "metadata!": {"name!": LABEL},
    "spec!": {"accessModes!": [str], "resources!": RESOURCES, "storageClassName": SUBDOMAIN},
}
RESTART_RULE = {"name": LABEL, "action!": str, "onJobFailureReasons": [str], "targetReplicatedJobs": [LABEL]}
JOBSET_SPEC = {
    "replicatedJobs!": REPLICATED_JOBS,
    "suspend": bool,
    "volumeClaimPolicies": [{"templates!": [CLAIM]}],
    "successPolicy": {
        "operator!": _matching("All|Any", 3, "operator: use All or Any"),
        "targetReplicatedJobs": [LABEL],
    },
    "failurePolicy": {"maxRestarts": int, "rules": [RESTART_RULE]},
}
METADATA = {"name": LABEL, "generateName": str, "namespace": LABEL, "labels": LABELS, "annotations": {"*": str}}
SUBDOMAIN_METADATA = {**METADATA, "name!": SUBDOMAIN}

INITIALIZER = {"storageUri": URI, "env": ENV, "secretRef": {"name!": SUBDOMAIN}}
PATCHED_POD = {"volumes": VOLUMES, "containers": [{"name!": LABEL, "env": ENV, "volumeMounts": MOUNTS}]}
PATCHED_JOBS = [{"name!": LABEL, "template": {"spec": {"template": {"spec": PATCHED_POD}}}}]
TRAINJOB_SPEC = {
    "runtimeRef!": {"name!": SUBDOMAIN, "apiGroup": SUBDOMAIN, "kind": str},
    "initializer": {"dataset": INITIALIZER, "model": INITIALIZER},
    "trainer": {
        "image": IMAGE,
        "command": [str],
        "args": [str],
        "env": ENV,
        "numNodes": int,
        "numProcPerNode": int,
        "resourcesPerNode": RESOURCES,
    },
    "runtimePatches": [
        {
            "manager!": _matching(r"[a-z0-9.-]+\.[a-z]+/[\w.-]+", 253, "name with a domain before it"),
            "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": PATCHED_JOBS}}},
        }
    ],
    "suspend": bool,
}
RUNTIME_SPEC = {"mlPolicy!": {"numNodes": int, "torch!": {}}, "template!": {"spec!": JOBSET_SPEC}}


def _kind(metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    return {"apiVersion!": str, "kind!": str, "metadata!": metadata, **spec}


DEVICE_REQUEST = {"name!": LABEL, "exactly!": {"deviceClassName!": SUBDOMAIN, "count": int}}

PEERS = {"podSelector!": {"matchLabels!": LABELS}}

KINDS: dict[tuple[str, str], shapes.Shape] = {
    ("trainer.kubeflow.org/v1alpha1", "ClusterTrainingRuntime"): _kind(SUBDOMAIN_METADATA, {"spec!": RUNTIME_SPEC}),
    ("trainer.kubeflow.org/v1alpha1", "TrainJob"): _kind(METADATA, {"spec!": TRAINJOB_SPEC}),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"): _kind(METADATA, {"spec!": JOBSET_SPEC}),
    ("resource.k8s.io/v1", "ResourceClaimTemplate"): _kind(
        METADATA, {"spec!": {"spec!": {"devices!": {"requests!": [DEVICE_REQUEST]}}}}
    ),
    ("networking.k8s.io/v1", "NetworkPolicy"): _kind(
        METADATA, {"spec!": {**PEERS, "policyTypes!": [str], "ingress!": [{"from!": [PEERS]}]}}
    ),
    ("v1", "ConfigMap"): _kind(SUBDOMAIN_METADATA, {"data": {"*": str}}),
    ("v1", "Service"): _kind(METADATA, {"spec!": {"selector": LABELS, "ports!": [{"name": LABEL, "port!": int}]}}),
}
