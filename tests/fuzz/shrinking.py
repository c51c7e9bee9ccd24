"""Makes a failing case smaller while it fails in the same way."""

from __future__ import annotations

import dataclasses
import marshal
import time

from tests.fuzz import mutations

__all__ = ["shrink"]


def _copied(value):
    return marshal.loads(marshal.dumps(value, 2))  # noqa: S302 - our own bytes; copy.deepcopy does not reach 900 deep


def shrink(case, fails, seconds=60.0):
    """The smallest case that was found in this time.

    Args:
        case: one that fails.
        fails: whether a case still fails in the same way.
        seconds: how long to try.
    """
    end = time.monotonic() + seconds
    small, smaller = case, True
    while smaller and time.monotonic() < end:
        smaller = False
        for candidate in _candidates(small):
            if time.monotonic() > end:
                break
            if fails(candidate):
                small, smaller = candidate, True
                break
    return small


def _candidates(case):
    """Smaller cases, the boldest first."""
    for number in range(len(case.cluster)):
        yield dataclasses.replace(case, cluster=case.cluster[:number] + case.cluster[number + 1 :])
    if isinstance(case.review, str):
        return
    for key in case.policy:
        yield dataclasses.replace(case, policy={name: value for name, value in case.policy.items() if name != key})
    for which, count in (
        ("review", _size(case.review["request"])),
        *((n, _size(each)) for n, each in enumerate(case.cluster)),
    ):
        for place in (
            sorted(range(count), key=lambda number: (number * 7919) % (count + 1)) if count > 400 else range(count)
        ):
            yield from _cut(case, which, place)


def _size(document):
    return len(mutations.places(document))


def _cut(case, which, number):
    """The case without one value, and with half of it where it is a list or a text."""
    for how in (_without, _first_half, _second_half):
        other = dataclasses.replace(case, review=_copied(case.review), cluster=_copied(case.cluster))
        document = other.review["request"] if which == "review" else other.cluster[which]
        every = mutations.places(document)
        holder, key = every[number]
        if key in ("uid", "operation", "kind") and which == "review" and holder is document:
            return
        if how(holder, key):
            yield other


def _without(holder, key):
    del holder[key]
    return True


def _first_half(holder, key):
    value = holder[key]
    if not isinstance(value, (list, str)) or len(value) < 4 or "@@raw" in value:
        return False
    holder[key] = value[: len(value) // 2]
    return True


def _second_half(holder, key):
    value = holder[key]
    if not isinstance(value, (list, str)) or len(value) < 4 or "@@raw" in value:
        return False
    holder[key] = value[len(value) // 2 :]
    return True
