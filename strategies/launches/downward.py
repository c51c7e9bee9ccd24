"""Downward: variables that hold a limit or a request of their own container, which its resources tell.

Source: kubernetes v1.36.3 `pkg/api/v1/resource/helpers.go` ExtractContainerResourceValue: the amount is divided by the
divisor, and rounded up. A limit that the container lacks is the node's, which only the pod knows.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from strategies.documents import quantities
from strategies.documents.pods import EnvVar

__all__ = ["known"]

_source: Callable[[EnvVar], Any] = operator.methodcaller("get", "valueFrom")
_PARTS = ("requests", "limits")


def known(env: Sequence[EnvVar], name: object, resources: Mapping[str, Any]) -> tuple[EnvVar, ...]:
    """Return an env with the values of these variables in it.

    Args:
        env: the variables of a container.
        name: of the container.
        resources: its limits and requests.
    """
    sources = list(map(_source, env))
    if not any(sources):
        return tuple(env)
    found = list(env)
    for index in itertools.compress(itertools.count(), sources):
        asked = sources[index].get("resourceFieldRef")
        if isinstance(asked, dict) and asked.get("containerName") in (None, "", name):
            value = _value(asked, resources)
            if value is not None:
                found[index] = {"name": env[index].get("name", ""), "value": value}
    return tuple(found)


def _value(asked: Mapping[str, Any], resources: Mapping[str, Any]) -> str | None:
    part, _, resource = str(asked.get("resource")).partition(".")
    parts = _PARTS[_PARTS.index(part) :] if part in _PARTS else ()  # a request that is missing becomes the limit
    amount = next((each[resource] for each in map(resources.get, parts) if each and resource in each), None)
    if amount is None:
        return None
    try:
        total, divisor = quantities.exact(amount), quantities.exact(asked.get("divisor") or 1)
    except ValueError:
        return None  # the API server says so at once
    return str(ceil(total / (divisor if divisor > 0 else 1))) if total > 0 else None
