"""The engines of a Gateway as Kubernetes objects: from settings to documents, and nothing else.

One JobSet with a replicated job for each engine; it owns the other objects, so whoever deletes it has deleted all. It
is made suspended, and its pods come when what protects them is there. What a platform decides (device, node, seat, host
memory by profile) is not written here but asked for by annotation and label, and Muster's admission adds it.

Sources: JobSet v0.12.0 `api/jobset/v1alpha2`, Kubernetes 1.36 `batch/v1`, `core/v1`, `networking/v1`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.sessions.engines import network

__all__ = [
    "DIGEST",
    "FOLDERS",
    "GATEWAY",
    "MANAGER",
    "PORT",
    "PROFILE",
    "ROLES",
    "SEATED",
    "TERM",
    "TOKEN",
    "Settings",
    "Volume",
    "digest",
    "is_ours",
    "job_set",
    "name_of",
    "policy",
    "secret",
    "selector",
    "service_account",
]

ROLES = ("trainer", "sampler")
PORT = 8090
TOKEN = "token"  # noqa: S105  # the name of a file
"""Key of the Secret, and name of its file in the pods."""
FOLDERS = ("weights", "sampler_weights", "external_weights", "snapshots")
"""The folders of `root` that engines see. The journal and the signing key are not among them."""
MANAGER = "muster-sessions"
GATEWAY = "muster.dev/gateway"
"""Label of all objects, with the name of the Gateway."""
PROFILE = "muster.dev/profile"
"""Label of all pods of a claim profile, which Muster's admission adds."""
TERM = "muster.dev/term"
"""Annotation of the JobSet: which of the Gateways that had it one after the other has it now."""
DIGEST = "muster.dev/settings"
"""Annotation of the JobSet: of what it was made."""
SEATED = "muster.dev/seated"
"""Annotation of the JobSet: its engines have had seats, so that they stay with its profile."""

_OURS = "app.kubernetes.io/managed-by"
_ROLE = "muster.dev/role"
_CLAIM_PROFILE = "muster.dev/claim-profile"
_RBAC = "rbac.authorization.k8s.io/v1"
_JOB_SET = "jobset.x-k8s.io/v1alpha2"
_USER = 65532  # of the images
_SECRET = "/var/run/muster"  # noqa: S105  # a folder
_KEPT = 60  # seconds in which a JobSet can be looked at after its end
_ENDLESS = 2**31 - 1  # retries of a Kubernetes Job, which counts them for ever
_GRACE = 10  # seconds from SIGTERM to SIGKILL
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_QUANTITY = re.compile(r"[1-9][0-9]{0,14}(k|M|G|T|Ki|Mi|Gi|Ti)?")


@dataclass(frozen=True, slots=True)
class Volume:
    """A PersistentVolumeClaim, or a folder of it.

    Attributes:
        claim: its name.
        path: of the folder in it; empty for all of it.
    """

    claim: str
    path: str = ""

    @classmethod
    def parsed(cls, text: str) -> Volume:
        """Return what `CLAIM` or `CLAIM:FOLDER` says. Raises `ValueError`."""
        claim, _, path = text.partition(":")
        parts = path.split("/") if path else []
        if not _DOMAIN.fullmatch(claim) or any(part in {"", ".", ".."} or "\0" in part for part in parts):
            raise ValueError(f"{text[:80]}: pass CLAIM or CLAIM:FOLDER, the name of a PersistentVolumeClaim")
        return cls(claim, path)

    def inside(self, name: str) -> str:
        """Return the path of something in the folder, from the top of the claim."""
        return f"{self.path}/{name}" if self.path else name


@dataclass(frozen=True, slots=True)
class Settings:
    """Where and as what the engines of a Gateway run. Raises `ValueError` for what Kubernetes would refuse.

    Attributes:
        gateway: name of the Gateway, the same for all its replicas; its objects are called after it.
        namespace: of the pods.
        peers: namespace of the Gateway, from which alone the pods are reached.
        image: of the engines.
        volume: that holds the root of the Gateway.
        root: of the Gateway, at the same path in the pods.
        base: folder of the base model.
        base_volume: that holds it; None where the image does.
        sampler_image: where it is another.
        profile: of the claim that both engines share; None for none.
        spill: further profiles, in the order in which they are taken while those before have no seats for the engines.
        memory: what each pod asks of its host; None leaves it to the profile.
        lease: socket of the agent of each node, at the same path in the pods; None where they take no turns.
        silence: seconds without a Gateway after which the pods end by themselves.
    """

    gateway: str
    namespace: str
    peers: str
    image: str
    volume: Volume
    root: Path
    base: Path
    base_volume: Volume | None = None
    sampler_image: str | None = None
    profile: str | None = None
    spill: tuple[str, ...] = ()
    memory: str | None = None
    lease: Path | None = None
    silence: float = 600.0

    def __post_init__(self) -> None:
        """Check what ends up in names and quantities."""
        for option, value, pattern, instead in (
            ("gateway", self.gateway, _NAME, "at most 40 small letters, digits and dashes, a letter first"),
            ("namespace", self.namespace, _LABEL, "the name of a namespace"),
            ("gateway-namespace", self.peers, _LABEL, "the name of a namespace"),
            *(("profile", each, _DOMAIN, "the name of a profile") for each in (self.profile, *self.spill)),
            ("memory", self.memory, _QUANTITY, "an amount such as 16Gi"),
        ):
            if value is not None and not pattern.fullmatch(value):
                raise ValueError(f"--{option}: {value[:80]!r}: pass {instead}")
        if not self.image or any(character.isspace() for character in self.image + (self.sampler_image or "")):
            raise ValueError(f"--image: {self.image[:80]!r}: pass the name of an image")
        if twice := {each for each in self.profiles if self.profiles.count(each) > 1}:
            raise ValueError(f"--profile: {min(twice)[:80]!r}: is named twice: pass each profile once")

    @property
    def profiles(self) -> tuple[str, ...]:
        """The profiles, in the order in which they are tried; empty for none."""
        return () if self.profile is None else (self.profile, *self.spill)


def name_of(settings: Settings) -> str:
    """Return how all objects of the engines are called."""
    return f"muster-{settings.gateway}"


def selector(settings: Settings) -> str:
    """Return the label selector of the pods."""
    return ",".join(f"{key}={value}" for key, value in _labels(settings).items())


def is_ours(settings: Settings, document: Mapping[str, Any]) -> bool:
    """Whether an object was made by a Gateway of this name."""
    labels = document["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in _labels(settings).items())


def digest(settings: Settings, arguments: Mapping[str, Sequence[str]]) -> str:
    """Return what a JobSet of other settings has not."""
    return hashlib.sha256(json.dumps(_spec(settings, arguments), sort_keys=True).encode()).hexdigest()[:16]


def job_set(
    settings: Settings, arguments: Mapping[str, Sequence[str]], rights: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the JobSet, suspended, for the first Gateway that has it.

    Args:
        settings: of the engines.
        arguments: of `python -m muster.sessions.engines.process` by role, without port and token.
        rights: the RoleBinding by which the Gateway may remove it, and with which it goes; None for none that is known.
    """
    metadata = _metadata(settings)
    if rights is not None:
        named = {key: rights["metadata"][key] for key in ("name", "uid")}
        metadata["ownerReferences"] = [{"apiVersion": _RBAC, "kind": "RoleBinding", **named}]
    metadata["annotations"] = {TERM: "1", DIGEST: digest(settings, arguments)}
    return {"apiVersion": _JOB_SET, "kind": "JobSet", "metadata": metadata, "spec": _spec(settings, arguments)}


def service_account(settings: Settings, uid: str) -> dict[str, Any]:
    """Return the account of the pods, which may do nothing, and whose token no pod gets."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": _metadata(settings, uid),
        "automountServiceAccountToken": False,
    }


def secret(settings: Settings, uid: str, token: str) -> dict[str, Any]:
    """Return the token that the engines ask for."""
    metadata = _metadata(settings, uid)
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {TOKEN: token}, "immutable": True}


def policy(settings: Settings, uid: str) -> dict[str, Any]:
    """Return who reaches the pods: their Gateway, at their port. They reach nobody."""
    gateway = {"app.kubernetes.io/name": "muster-gateway", "app.kubernetes.io/instance": settings.gateway}
    peer = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": settings.peers}},
        "podSelector": {"matchLabels": gateway},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": _metadata(settings, uid),
        "spec": {
            "podSelector": {"matchLabels": _labels(settings)},
            "policyTypes": ["Ingress", "Egress"],
            "ingress": [{"from": [peer], "ports": [{"protocol": "TCP", "port": PORT}]}],
            "egress": [],
        },
    }


def _labels(settings: Settings) -> dict[str, str]:
    return {_OURS: MANAGER, GATEWAY: settings.gateway}


def _metadata(settings: Settings, uid: str | None = None) -> dict[str, Any]:
    """Return metadata of an object, which the JobSet with this uid owns."""
    name = name_of(settings)
    metadata: dict[str, Any] = {"name": name, "namespace": settings.namespace, "labels": _labels(settings)}
    if uid is not None:
        metadata["ownerReferences"] = [{"apiVersion": _JOB_SET, "kind": "JobSet", "name": name, "uid": uid}]
    return metadata


def _spec(settings: Settings, arguments: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "suspend": True,
        "ttlSecondsAfterFinished": _KEPT,
        "network": {"enableDNSHostnames": False},  # a Gateway reaches pods by their addresses
        "replicatedJobs": [_replicated(settings, role, arguments[role]) for role in ROLES],
    }


def _replicated(settings: Settings, role: str, arguments: Sequence[str]) -> dict[str, Any]:
    metadata: dict[str, Any] = {"labels": {**_labels(settings), _ROLE: role}}
    if settings.profile is not None:
        metadata["annotations"] = {_CLAIM_PROFILE: settings.profile}
    return {
        "name": role,
        "replicas": 1,
        "template": {
            "spec": {
                "completions": 1,
                "parallelism": 1,
                "backoffLimit": _ENDLESS,
                "template": {"metadata": metadata, "spec": _pod(settings, role, arguments)},
            }
        },
    }


def _pod(settings: Settings, role: str, arguments: Sequence[str]) -> dict[str, Any]:
    return {
        "serviceAccountName": name_of(settings),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # In place, so that a process that died takes its seat and its device again, and not those of another.
        "restartPolicy": "OnFailure",
        "terminationGracePeriodSeconds": _GRACE,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings, role, arguments)],
        "volumes": _volumes(settings),
    }


def _container(settings: Settings, role: str, arguments: Sequence[str]) -> dict[str, Any]:
    own = ["--port", str(PORT), "--token", f"{_SECRET}/{TOKEN}", "--silence", f"{settings.silence:g}"]
    container: dict[str, Any] = {
        "name": role,
        "image": (settings.sampler_image if role == "sampler" else None) or settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python", "-m", "muster.sessions.engines.process"],
        "args": [*arguments, *own],
        "env": [{"name": "OMP_NUM_THREADS", "value": "1"}, {"name": "HF_HUB_OFFLINE", "value": "1"}],
        "ports": [{"name": "engine", "containerPort": PORT, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": network.READY, "port": PORT}, "periodSeconds": 2},
        "terminationMessagePolicy": "FallbackToLogsOnError",  # so that the reason is in the status of the pod
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts(settings, role),
    }
    if settings.memory is not None:
        container["resources"] = {"requests": {"memory": settings.memory}}
    return container


def _volumes(settings: Settings) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "root", "persistentVolumeClaim": {"claimName": settings.volume.claim}},
        {"name": "token", "secret": {"secretName": name_of(settings), "defaultMode": 0o440}},
        {"name": "tmp", "emptyDir": {}},
    ]
    if settings.base_volume is not None:
        claim = {"claimName": settings.base_volume.claim}
        volumes.append({"name": "base", "persistentVolumeClaim": claim})
    if settings.lease is not None:  # a pod waits where no agent has made the folder
        volumes.append({"name": "lease", "hostPath": {"path": str(settings.lease.parent), "type": "Directory"}})
    return volumes


def _mounts(settings: Settings, role: str) -> list[dict[str, Any]]:
    """Return what a container sees: the trainer writes weights, the sampler reads those that it may sample from."""
    mounts: list[dict[str, Any]] = [
        {"name": "token", "mountPath": _SECRET, "readOnly": True},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108  # in the container
    ]
    for folder in FOLDERS if role == "trainer" else ("weights", "sampler_weights"):
        mount = {"name": "root", "mountPath": str(settings.root / folder), "subPath": settings.volume.inside(folder)}
        mounts.append({**mount, "readOnly": True} if role == "sampler" else mount)
    if settings.base_volume is not None:
        base = {"name": "base", "mountPath": str(settings.base), "readOnly": True}
        mounts.append({**base, "subPath": settings.base_volume.path} if settings.base_volume.path else base)
    if settings.lease is not None:  # read-only is enough to connect
        mounts.append({"name": "lease", "mountPath": str(settings.lease.parent), "readOnly": True})
    return mounts
