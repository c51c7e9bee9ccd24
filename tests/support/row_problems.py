"""What is wrong with a rule's row as it stands in a file: keys that do not exist, a missing proof, and the like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from muster.strategies.rules import relations

_CONDITIONAL = ("not", "written")
_TEXTS = ("rule", "message", "source", "refused", "taken", "says", "proof", "reason", "level")
_KEYS = frozenset({*_TEXTS, *relations.RELATIONS, "flag", "when", "at", "always", "facts", "doubt"})
_LISTS = ("one_of", "none_of", "members")


def of_row(written: Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with a row as it stands in a file: keys that do not exist, a missing proof, and the like."""
    yield from (f"{key} is not a key of a row" for key in written.keys() - _KEYS)
    yield from (f"{key} is missing" for key in ("flag", "rule", "message", "source") if not written.get(key))
    yield from (f"{key} is not a text" for key in _TEXTS if not isinstance(written.get(key, ""), str))
    named = [name for name in relations.RELATIONS if name in written]
    if len(named) != 1:
        yield f"there are {len(named)} relations: {named}"
    for name in named:
        test = written[name]
        yield from _conditions(name, test) if name in ("needs", "excludes") else _test(name, name, test)
    when = written.get("when", {})
    for each in when if isinstance(when, list) else [when]:
        yield from _conditions("when", each)
    yield from _conditions("doubt", written.get("doubt", {}))
    if written.get("level", "warning") not in ("warning", "note"):
        yield "level is neither warning nor note"
    if not (written.get("refused") and written.get("taken")):
        yield "the proof needs refused and taken"
    if written.get("proof") == "none" and not written.get("reason"):
        yield "reason is missing, why upstream is not asked"


def _conditions(where: str, found: object) -> Iterator[str]:
    if not isinstance(found, dict):
        yield f"{where} is not a table of conditions"
        return
    for name, test in found.items():
        if isinstance(test, dict):
            for key, operand in test.items():
                if key not in relations.RELATIONS[2:] + _CONDITIONAL:
                    yield f"{where}.{name}: {key} is not a test"
                yield from _test(f"{where}.{name}.{key}", key, operand)


def _test(where: str, name: str, operand: object) -> Iterator[str]:
    if name in _LISTS and not isinstance(operand, list):
        yield f"{where} is not a list"
    if name in ("whole", "json", "set", "written", "always") and not isinstance(operand, bool):
        yield f"{where} is neither true nor false"
