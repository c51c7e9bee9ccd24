"""Labels: what Kubernetes takes for the key and the value of a label, and for the names of objects.

Source: kubernetes v1.36.3 apimachinery `pkg/util/validation/validation.go` IsQualifiedName, IsValidLabelValue and
IsDNS1123Subdomain.
"""

from __future__ import annotations

import functools
import re

__all__ = ["is_key", "is_object", "is_value"]

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?"
_PREFIX = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*"
_LONGEST, _LONGEST_PREFIX = 63, 253
_REMEMBERED = 512  # jobs write the same few labels


def is_key(text: str) -> bool:
    """Whether a text is the key of a label: a name of up to 63 characters, with or without a domain and /."""
    return len(text) <= _LONGEST_PREFIX + 1 + _LONGEST and _judged_key(text)


def is_value(text: str) -> bool:
    """Whether a text is the value of a label; an empty one is."""
    return len(text) <= _LONGEST and _judged_value(text)


def is_object(name: str) -> bool:
    """Whether a text is the name of a ConfigMap, a Secret, a claim and most other objects: a DNS subdomain."""
    return len(name) <= _LONGEST_PREFIX and _judged_object(name)


@functools.lru_cache(maxsize=_REMEMBERED)
def _judged_object(name: str) -> bool:
    return re.fullmatch(_PREFIX, name) is not None


@functools.lru_cache(maxsize=_REMEMBERED)
def _judged_key(text: str) -> bool:
    prefix, slash, name = text.rpartition("/")
    if slash and not (len(prefix) <= _LONGEST_PREFIX and re.fullmatch(_PREFIX, prefix)):
        return False
    return len(name) <= _LONGEST and re.fullmatch(_NAME, name) is not None


@functools.lru_cache(maxsize=_REMEMBERED)
def _judged_value(text: str) -> bool:
    return not text or re.fullmatch(_NAME, text) is not None
