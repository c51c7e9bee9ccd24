"""Environments: the values of a container's variables, as far as its own document tells them.

A limit or request of the container is divided by its divisor and rounded up; a limit that the container lacks is the
node's, which only the pod knows. A value may name variables that stand before it. Sources: kubernetes v1.36.3
`pkg/api/v1/resource/helpers.go` ExtractContainerResourceValue, `pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil

from muster.strategies.documents import quantities
from muster.strategies.documents.model import EnvVar, ResourceFieldRef, Resources

__all__ = ["known"]

_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_LONGEST, _MOST = 1024, 65_536
"""Characters of a value that is written or has others written into it, and of all that are written."""


def known(
    env: Iterable[EnvVar], name: str, resources: Resources, replaced: frozenset[str] = frozenset()
) -> tuple[EnvVar, ...]:
    """Return an env with what is known of its values in it.

    Args:
        env: the variables of a container.
        name: of the container.
        resources: its limits and requests.
        replaced: variables that get another value later.
    """
    found = [_with_amount(each, name, resources) if each.value_from else each for each in env]
    return tuple(_expanded(found, replaced) if any("$(" in each.value for each in found) else found)


def _with_amount(entry: EnvVar, name: str, resources: Resources) -> EnvVar:
    asked = entry.value_from.resource_field_ref if entry.value_from else None
    value = _amount(asked, resources) if asked and asked.container_name in ("", name) else None
    return entry if value is None else EnvVar(name=entry.name, value=value)


def _amount(asked: ResourceFieldRef, resources: Resources) -> str | None:
    part, _, resource = asked.resource.partition(".")
    # A request that is missing becomes the limit.
    parts = {"requests": (resources.requests, resources.limits), "limits": (resources.limits,)}.get(part, ())
    amount = next((each[resource] for each in parts if resource in each), None)
    if amount is None:
        return None
    try:
        total, divisor = quantities.exact(amount), quantities.exact(asked.divisor)
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
        text = entry.literal
        texts.pop(entry.name, None)
        if text is not None and "$$" not in text:
            if "$(" in text and len(text) <= _LONGEST and written < _MOST:
                text = _REFERENCE.sub(value, text)
                found[index] = EnvVar(name=entry.name, value=text)
                written += len(text)
            if len(text) <= _LONGEST and entry.name not in replaced:
                texts[entry.name] = text
    return found
