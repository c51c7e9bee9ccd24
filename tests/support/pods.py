"""The pods of a JobSet, as kubelet starts their containers: command line and env, with every reference resolved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Pod", "pods"]

_INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
_INDEX_LABEL = "metadata.labels['batch.kubernetes.io/job-completion-index']"
_JOB = "metadata.labels['jobset.sigs.k8s.io/job-index']"
_JOB_NOTE = "metadata.annotations['jobset.sigs.k8s.io/job-index']"
_GLOBAL = "metadata.labels['jobset.sigs.k8s.io/job-global-index']"
_GLOBAL_NOTE = "metadata.annotations['jobset.sigs.k8s.io/job-global-index']"
# Kubernetes v1.36.3 third_party/forked/golang/expansion/expand.go: $$ is a $, an unknown name stays as it is.
_REFERENCE = re.compile(r"\$\$|\$\(([^()]*)\)")


@dataclass(frozen=True)
class Pod:
    """One pod of a JobSet and its container that matters.

    Attributes:
        room: its replicated job.
        host: its DNS name, as JobSet makes it.
        argv: command and args, expanded.
        env: expanded.
        devices: devices of the container, by its limits; 0 without any.
    """

    room: str
    host: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    devices: int = 0


def pods(jobset: Mapping[str, Any], container: str = "") -> list[Pod]:
    """Return the pods of a JobSet in the order of their ranks.

    Args:
        jobset: as the cluster would store it.
        container: the name of the container; "" for the first of each pod.
    """
    return list(_pods(jobset, container))


def _pods(jobset: Mapping[str, Any], container: str) -> Iterator[Pod]:
    name, spec = jobset["metadata"]["name"], jobset["spec"]
    subdomain = (spec.get("network") or {}).get("subdomain") or name
    jobs = 0
    for room in spec["replicatedJobs"]:
        inner = room["template"]["spec"]
        every = inner["template"]["spec"]["containers"]
        own = next((each for each in every if each["name"] == container), every[0])
        for job in range(room.get("replicas", 1)):
            for index in range(inner.get("completions") or 1):
                fields = {_INDEX: index, _INDEX_LABEL: index, _JOB: job, _JOB_NOTE: job}
                fields |= {_GLOBAL: jobs, _GLOBAL_NOTE: jobs}
                yield _pod(own, room["name"], f"{name}-{room['name']}-{job}-{index}.{subdomain}", fields)
            jobs += 1


def _pod(container: Mapping[str, Any], room: str, host: str, fields: Mapping[str, int]) -> Pod:
    env: dict[str, str] = {}
    # The Job controller adds the index to the env of each container.
    index = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": _INDEX}}}
    for entry in [*(container.get("env") or ()), index]:
        source = (entry.get("valueFrom") or {}).get("fieldRef")
        text = str(fields.get(source["fieldPath"], "")) if source else expand(entry.get("value") or "", env)
        env[entry["name"]] = text
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    limits = (container.get("resources") or {}).get("limits") or {}
    devices = sum(int(value) for name, value in limits.items() if name.endswith("/gpu"))
    return Pod(room, host, tuple(expand(word, env) for word in words), env, devices)


def expand(text: str, env: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does in command, args and env."""

    def known(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return env.get(found[1], found[0])

    return _REFERENCE.sub(known, text)
