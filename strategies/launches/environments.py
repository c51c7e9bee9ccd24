"""Environments: the values of a container's variables, as far as its own document tells them.

A limit or request of the container is divided by its divisor and rounded up; a limit that the container lacks is the
node's, which only the pod knows. A value may name variables that stand before it. Sources: kubernetes v1.36.3
`pkg/api/v1/resource/helpers.go` ExtractContainerResourceValue, `pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any

from muster.strategies.documents import quantities
from muster.strategies.documents.pods import EnvVar

__all__ = ["known"]

_source: Callable[[EnvVar], Any] = operator.methodcaller("get", "valueFrom")
_text: Callable[[EnvVar], Any] = operator.methodcaller("get", "value")
_PARTS = ("requests", "limits")
_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_LONGEST, _MOST = 1024, 65_536
"""Characters of a value that is written or has others written into it, and of all that are written."""


def known(
    env: Sequence[EnvVar], name: object, resources: Mapping[str, Any], replaced: frozenset[str] = frozenset()
) -> tuple[EnvVar, ...]:
    """Return an env with what is known of its values in it.

    Args:
        env: the variables of a container.
        name: of the container.
        resources: its limits and requests.
        replaced: variables that get another value later.
    """
    sources = list(map(_source, env))
    found = _with_amounts(env, sources, name, resources) if any(sources) else env
    return tuple(_expanded(found, replaced) if "$(" in "".join(map(str, map(_text, found))) else found)


def _with_amounts(
    env: Sequence[EnvVar], sources: Sequence[Any], name: object, resources: Mapping[str, Any]
) -> Sequence[EnvVar]:
    found = list(env)
    for index in itertools.compress(itertools.count(), sources):
        asked = sources[index].get("resourceFieldRef")
        if isinstance(asked, dict) and asked.get("containerName") in (None, "", name):
            value = _amount(asked, resources)
            if value is not None:
                found[index] = {"name": env[index].get("name", ""), "value": value}
    return found


def _amount(asked: Mapping[str, Any], resources: Mapping[str, Any]) -> str | None:
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


def _expanded(env: Sequence[EnvVar], replaced: frozenset[str]) -> Sequence[EnvVar]:
    """Write the values of variables for references to them; others stay, as Kubernetes leaves them."""
    texts: dict[str, str] = {}
    found, written = list(env), 0

    def value(reference: re.Match[str]) -> str:
        return texts.get(reference[1], reference[0])

    for index, entry in enumerate(env):
        text = entry.get("value")
        name = str(entry.get("name"))
        texts.pop(name, None)
        if isinstance(text, str) and entry.get("valueFrom") is None and "$$" not in text:
            if "$(" in text and len(text) <= _LONGEST and written < _MOST:
                text = _REFERENCE.sub(value, text)
                found[index] = {**entry, "value": text}
                written += len(text)
            if len(text) <= _LONGEST and name not in replaced:
                texts[name] = text
    return found
