"""Label selectors, as the API server matches them (apimachinery `pkg/apis/meta/v1`, LabelSelector)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["selects", "text"]


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a selector matches these labels; an empty one matches everything."""
    selector = selector or {}
    equal = all(labels.get(key) == value for key, value in (selector.get("matchLabels") or {}).items())
    return equal and all(_holds(term, labels) for term in selector.get("matchExpressions") or ())


def text(selector: Mapping[str, Any] | None) -> str:
    """Return the `matchLabels` of a selector as a query parameter."""
    return ",".join(f"{key}={value}" for key, value in ((selector or {}).get("matchLabels") or {}).items())


def _holds(term: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = str(term.get("key")), term.get("values") or ()
    match term.get("operator"):
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
    return False
