"""Versions: whether the API server serves what an object says that it is."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Mapping
from typing import Any

from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.trainer_versions import NEWEST, Version
from muster.webhook.cli.schemas import shapes
from muster.webhook.cli.schemas.shapes import Kind

__all__ = ["known_as", "misnamed"]

_NEAR = 0.8
_LONGEST = 100  # characters of a name that is compared with others
_ORGANISATIONS = re.compile(r"(?:^|\.)(?:kubeflow\.org|(?:x-)?k8s\.io|kubernetes\.io)$")
"""Whose groups have no other kind of these names, under any version."""


def known_as(document: Mapping[str, Any], trainer: Version = NEWEST) -> Kind | None:
    """Return the kind that an object is, or is meant to be: other spelling, other version, a group that is gone.

    Args:
        document: an object whose `apiVersion` and `kind` are texts.
        trainer: the version in force.
    """
    return _meant(document["apiVersion"].rpartition("/")[0], document["kind"].lower(), trainer.name)


@functools.lru_cache(maxsize=256)
def _meant(group: str, name: str, trainer: str) -> Kind | None:
    every = _kinds(trainer)
    called = re.sub(r"[-_ ]", "", name[:_LONGEST])
    found = every.get(called) or every.get(called.removesuffix("s"))
    if found is not None:
        return found if _is_near(group, every) else None
    mine = [each for each, kind in every.items() if kind.group == group]
    near = difflib.get_close_matches(name[:_LONGEST], mine, 1, _NEAR)
    return every[near[0]] if near else None


def misnamed(document: Mapping[str, Any], kind: Kind) -> list[Finding]:
    """Return an error for an `apiVersion` and for a `kind` that the API server does not know."""
    found = []
    if document["apiVersion"] != kind.api_version:
        message = f"does not exist; a {kind.name} is of {kind.api_version}"
        found.append(error("apiVersion", document["apiVersion"], message, rule="core/api-version"))
    if document["kind"] != kind.name:
        message = f"is not a kind of {kind.group}; did you mean {kind.name}?"
        found.append(error("kind", document["kind"], message, rule="core/api-version"))
    return found


@functools.cache
def _kinds(trainer: str) -> Mapping[str, Kind]:
    return {name.lower(): kind for name, kind in shapes.kinds(trainer).items()}


def _is_near(group: str, every: Mapping[str, Kind]) -> bool:
    """Whether only a mistake gives this group to a kind of Trainer or JobSet: it is theirs, or misspelt, or built in.

    A group without a dot is one that Kubernetes has built in, for a CustomResourceDefinition needs one.
    """
    if "." not in group or _ORGANISATIONS.search(group):
        return True
    wanted = {kind.group for kind in every.values()} | {"kubeflow.org"}
    return any(difflib.SequenceMatcher(None, group[:_LONGEST], each).ratio() >= _NEAR for each in wanted)
