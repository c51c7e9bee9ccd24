"""Patches: what the API server makes of an answer, and of a file that is applied again."""

from __future__ import annotations

import base64
import copy
from collections.abc import Mapping
from typing import Any

import jsonpatch
import orjson

from muster.webhook.admission import answers, reviews
from muster.webhook.admission.decisions import Decision

__all__ = ["applied", "reapplied"]


def applied(job: Mapping[str, Any], decision: Decision) -> Any:
    """Return a job with the JSON Patch of the answer applied, by a library that is not Muster's."""
    response = orjson.loads(reviews.dumps(answers.answer(decision)))["response"]
    patch = orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else []
    return jsonpatch.apply_patch(copy.deepcopy(job), patch)


def reapplied(stored: Any, file: Any) -> Any:
    """Return what is sent when a file is applied again: its fields, and those of others that are stored.

    Entries of lists are matched by their name, as server-side apply does for containers and variables.
    """
    if isinstance(stored, Mapping) and isinstance(file, Mapping):
        sent = {key: reapplied(stored.get(key), value) for key, value in file.items()}
        return {**copy.deepcopy(dict(stored)), **sent}
    if isinstance(stored, list) and isinstance(file, list) and all(map(_named, (*stored, *file))):
        given = {each["name"]: each for each in file}
        kept = [reapplied(each, given[each["name"]]) if each["name"] in given else each for each in stored]
        present = {each["name"] for each in stored}
        return copy.deepcopy(kept) + [copy.deepcopy(each) for name, each in given.items() if name not in present]
    return copy.deepcopy(file)


def _named(entry: Any) -> bool:
    return isinstance(entry, Mapping) and "name" in entry
