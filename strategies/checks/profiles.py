"""Profiles: seccomp and AppArmor, whose files of the node only the type Localhost names.

Source: kubernetes `pkg/apis/core/validation/validation.go` (validateSeccompProfileField,
ValidateAppArmorProfileField).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from muster.strategies.documents.paths import Path

__all__ = ["faults"]

_MEMBERS = ("seccompProfile", "appArmorProfile")
_TYPES = ("RuntimeDefault", "Localhost", "Unconfined")
_REFUSED = "so the API server refuses the pod"


def faults(context: Mapping[str, Any]) -> Iterator[tuple[Path, Any, str, str]]:
    """Yield what is wrong with the profiles of a security context: place in it, value, message and rule."""
    for member in _MEMBERS:
        profile = context.get(member)
        if not isinstance(profile, dict):
            continue
        kind, file = profile.get("type"), profile.get("localhostProfile")
        rule = "core/security-context"
        if isinstance(kind, str) and kind not in _TYPES:
            yield (member, "type"), kind, f"is not {' or '.join(_TYPES)}, {_REFUSED}; use one of them", rule
        elif kind == "Localhost" and not file:
            yield (member, "type"), kind, f"needs localhostProfile, a file of the node, {_REFUSED}; add it", rule
        elif isinstance(kind, str) and kind != "Localhost" and file is not None:
            message = f"is allowed only with type: Localhost, {_REFUSED}; remove one of the two"
            yield (member, "localhostProfile"), file, message, rule
