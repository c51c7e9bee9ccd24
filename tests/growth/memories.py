"""Memories (`muster.dev/applied`) as their author could write them at CREATE, beside objects that grow with them.

Each names as many fields as count, of lists that have several entries for each field, in an order that jumps between
the two ends of the list.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.changes import restores
from tests.growth.axes import Axis, Case
from tests.support import devices, jobs

__all__ = ["axes"]

_UNIT = 64  # four times as many are all that count
_EACH = 8  # entries for each field
_MANY = 6  # lists, of each of the two objects
_ENV = "spec.trainer.env"
_FIRST = "spec.replicatedJobs[node]"


def _entry(number: int | str) -> dict[str, str]:
    return {"name": f"VARIABLE_{number}", "value": "x"}


def _jumping(count: int) -> list[int]:
    """Return the numbers below a count: the first, the last, the second, the last but one, ..."""
    return [number // 2 if number % 2 == 0 else count - 1 - number // 2 for number in range(count)]


def _remembering(document: dict[str, Any], fields: Mapping[str, str]) -> dict[str, Any]:
    note = {"strategy": "trl", "version": "1", "fields": fields}
    document["metadata"]["annotations"] = {"muster.dev/applied": json.dumps(note)}
    return document


def _update(old: Sequence[Any], new: Sequence[Any], fields: Mapping[str, str]) -> Case:
    """Return an update of the env of a TrainJob."""
    stored, sent = (jobs.make_trainjob(env=list(each), command=["python", "a.py"]) for each in (old, new))
    return Case(_remembering(sent, fields), old=_remembering(stored, fields))


def _hash(value: Any) -> str:
    return restores._hash(value)


def _missing(size: int) -> Case:
    env = [_entry(number) for number in range(size * _EACH)]
    return _update(env, [*env, _entry("more")], {f"{_ENV}[GONE_{number}]": "-" for number in range(size)})


def _put_back(size: int) -> Case:
    env = [_entry(number) for number in range(size * _EACH)]
    return _update(env, env[size:], {f"{_ENV}[VARIABLE_{number}]": "-" for number in _jumping(size)})


def _removed(size: int) -> Case:
    env = [_entry(number) for number in range(size * _EACH)]
    fields = {f"{_ENV}[{env[number]['name']}]": _hash(env[number]) for number in _jumping(len(env))[:size]}
    return _update([each for each in env if f"{_ENV}[{each['name']}]" not in fields], env, fields)


def _renamed(size: int) -> Case:
    env = [_entry(number) for number in range(size * _EACH)]
    others = [_entry(f"{number}_OTHER") for number in range(len(env))]
    return _update(others, env, {f"{_ENV}[{number}]": _hash(env[number]) for number in _jumping(len(env))[:size]})


def _names(size: int) -> Case:
    count = size * _EACH
    stored, sent = (jobs.make_jobset("llama", container={"name": "node"}) for _ in range(2))
    for made, ending in ((stored, "-other"), (sent, "")):
        made["spec"]["replicatedJobs"][0]["dependsOn"] = [
            {"name": f"job-{number}{ending}", "status": "Complete"} for number in range(count)
        ]
    name = stored["spec"]["replicatedJobs"][0]["name"]
    fields = {
        f"spec.replicatedJobs[{name}].dependsOn[{number}].name": _hash(f"job-{number}")
        for number in _jumping(count)[:size]
    }
    return Case(_remembering(sent, fields), old=_remembering(stored, fields))


def _many_lists(size: int) -> Case:
    stored, sent = (jobs.make_jobset("llama", container={"name": "node"}) for _ in range(2))
    env = [_entry(number) for number in range(size * _EACH)]
    for made, more in ((stored, []), (sent, [_entry("more")])):
        devices.pod_of(made)["containers"] = [
            {"name": f"c-{number}", "image": "example.org/a:1", "env": [*env, *more]} for number in range(_MANY)
        ]
    name = stored["spec"]["replicatedJobs"][0]["name"]
    place = f"spec.replicatedJobs[{name}].template.spec.template.spec.containers"
    fields = {f"{place}[c-{number % _MANY}].env[GONE_{number}]": "-" for number in range(size)}
    return Case(_remembering(sent, fields), old=_remembering(stored, fields))


_KINDS: Mapping[str, Callable[[int], Case]] = {
    "variables that are nowhere": _missing,
    "variables that the update lacks": _put_back,
    "variables that the stored job lacks": _removed,
    "variables by their index": _renamed,
    "names of entries": _names,
    "variables of many containers": _many_lists,
}


def axes() -> Iterator[Axis]:
    """Yield an axis for each kind of memory."""
    for kind, make in _KINDS.items():
        yield Axis(f"memory of {kind}", make, _UNIT, _UNIT * 4)
