"""Standards: pods that the Pod Security Standard of their namespace, which is in the input, does not let in.

Source: kubernetes v1.36.3 `staging/src/k8s.io/pod-security-admission/policy` (check_*.go). Only `enforce` refuses pods.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, error
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.webhook.cli.beside.inputs import Inputs, items, member

__all__ = ["check"]

_ENFORCE = "pod-security.kubernetes.io/enforce"
_MEMBERS = ("initContainers", "containers")
_HOST = ("hostNetwork", "hostPID", "hostIPC")
_ADDED = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP"}
    | {"SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SHOWN = 4


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report the replicated jobs whose pods the namespace of the input refuses."""
    found = inputs.named("Namespace", "", job.namespace)
    level = member(found[0].document, "metadata", "labels").get(_ENFORCE) if len(found) == 1 else None
    if level not in ("baseline", "restricted"):
        return
    for template in templates.list_templates(job):
        spec = _Whole(template.spec)
        faults = list(dict.fromkeys((*_baseline(spec), *(_restricted(spec) if level == "restricted" else ()))))
        if faults:
            more = f" and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
            message = (
                f"the namespace {job.namespace} of the input enforces {level}, and the pods of this replicated job "
                f"have {', '.join(faults[:_SHOWN])}{more}, so no pod is created; correct them, or the namespace"
            )
            finding = error(template.field("containers"), template.job.get("name"), message, rule="core/pod-security")
            yield templates.placed(job, finding)


class _Whole:
    """A pod with its security contexts."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.spec = spec
        self.volumes = items(spec, "volumes")
        self.context = member(spec, "securityContext")
        self.containers = [(each, member(each, "securityContext")) for name in _MEMBERS for each in items(spec, name)]


def _baseline(pod: _Whole) -> Iterator[str]:
    yield from (f"{name}: true" for name in _HOST if pod.spec.get(name) is True)
    if any("hostPath" in each for each in pod.volumes):
        yield "a hostPath"
    for container, context in pod.containers:
        if context.get("privileged") is True:
            yield "privileged: true"
        if any(port.get("hostPort") for port in items(container, "ports")):
            yield "a hostPort"
        if not _named(context, "add") <= _ADDED:
            yield "capabilities beyond the usual"
        if context.get("procMount") not in (None, "", "Default"):
            yield "another procMount"
    if any(member(each, "seccompProfile").get("type") == "Unconfined" for each in (pod.context, *_contexts(pod))):
        yield "seccompProfile Unconfined"


def _restricted(pod: _Whole) -> Iterator[str]:
    if any(set(each) - {"name"} and not _VOLUMES.intersection(each) for each in pod.volumes):
        yield "volumes of other kinds than it allows"
    for _, context in pod.containers:
        if context.get("allowPrivilegeEscalation") is not False:
            yield "no allowPrivilegeEscalation: false"
        if "ALL" not in _named(context, "drop"):
            yield "no capabilities: {drop: [ALL]}"
        if _named(context, "add") - {"NET_BIND_SERVICE"}:
            yield "capabilities that are added"
        if pod.spec.get("hostUsers") is not False:
            if context.get("runAsNonRoot", pod.context.get("runAsNonRoot")) is not True:
                yield "no runAsNonRoot: true"
            if context.get("runAsUser", pod.context.get("runAsUser")) == 0:
                yield "runAsUser: 0"
        profile = member(context, "seccompProfile") or member(pod.context, "seccompProfile")
        if profile.get("type") not in ("RuntimeDefault", "Localhost"):
            yield "no seccompProfile: {type: RuntimeDefault}"


def _named(context: Mapping[str, Any], part: str) -> set[str]:
    """Return the capabilities that a context adds or drops."""
    found = member(context, "capabilities").get(part)
    return set(map(str, found)) if isinstance(found, list) else set()


def _contexts(pod: _Whole) -> Iterator[Mapping[str, Any]]:
    return (context for _, context in pod.containers)
