"""What may leave a decision: members that Muster understands, and a hash of everything else.

A record, an Event, a report and a page are read by more people than the job. No secret is looked for in them. A value
is shown where its place says what it can be (a number, the name of an object, an image, the flag of a table with a
value of the flag's type), and `sha256:<12 hex> (N bytes)` stands in place of every other one. `known.toml` lists the
places; flags and their types come from the tables of the strategies.

Messages and reasons are Muster's own sentences around words of the user. A word of a sentence is shown when Muster's
own source has it, when it is a short number, or the name of an object that the record is about. So a secret that is
itself a word of Muster's is shown where a sentence quotes it, and whoever guesses a secret can compare its hash.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.resources
import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from typing import cast

import orjson

from muster.audit import scanner
from muster.audit.record_schema import Record, RecordedChange, RecordedFinding, RecordedObject

__all__ = ["field", "hashed", "is_name", "name", "prepare", "record", "text", "value"]

_SOURCES = ("strategies", "webhook/admission")  # whose sentences records have
_DEEPEST = 40  # levels of a value that is shown
_LONGEST = 4096  # characters of a sentence
_REMEMBERED = 512  # characters of a sentence that is remembered
_TOKEN = 16  # characters that a token has at least
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}", re.ASCII)
_IMAGE = re.compile(
    r"[\w.-]{1,253}(?::\d{1,5})?(?:/[\w.-]{1,128}){0,8}(?::[\w.-]{1,128})?(?:@sha256:[0-9a-f]{64})?", re.ASCII
)
_AMOUNT = re.compile(
    r"[+-]?\d{1,7}(?:\.\d{1,6})?(?:[eE][+-]?\d{1,3}|[mkKMGTPE]i?)?|[tT]rue|[fF]alse|null|[nN]one|auto", re.ASCII
)
_HOST = re.compile(r"(?:https?://)?(?:[a-z0-9.-]{1,253}|\$\(\w{1,64}\))(?::(?:\d{1,5}|\$\(\w{1,64}\)))?/?", re.ASCII)
_REFERENCE = re.compile(r"\$\((\w{1,64})\)", re.ASCII)
_NUMBER = re.compile(r"\d{1,7}%?", re.ASCII)
_SOURCE_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_STEP = re.compile(r"\.?([A-Za-z0-9_-]+)|\[((?:[^\]\\]|\\.)*)\]", re.DOTALL)
_BLANK = re.compile(r"(\s+)")
_AROUND = "\"'`()[]{}<>,;:.!?*…=-"  # what may stand around a word of a sentence
_INSIDE = re.compile(r"[./:=,\[\]()'\"*]+")  # what may stand between the words of a path or of an assignment

_Specs = Sequence[Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class _Tables:
    """What is known: places by kind (`known.toml`), words of our source, and flags by name, without dashes."""

    places: Mapping[str, frozenset[str]]
    words: frozenset[str]
    flags: Mapping[str, _Specs]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value is: how its path is shown, its last member, and what an entry of it is called."""

    shown: str
    member: str
    kind: str  # "command", "variable", "label", "map", or "" for a member like any other
    key: str


_NOWHERE = _Place("", "", "", "")


def prepare() -> None:
    """Read the tables, which takes some 100 ms; else the first record does."""
    _tables()


def record(raw: Record) -> Record:
    """Return a record as it may be written; `raw` is not changed.

    Raises:
        TypeError: JSON cannot express a value.
    """
    heads = [cast("Mapping[str, object]", raw[key]) for key in ("object", "owner", "runtime") if raw[key]]
    given = [each.get(key) for each in heads for key in ("name", "generateName", "namespace")]
    names = frozenset(each for each in given if isinstance(each, str) and is_name(each))
    subject = {key: each if key == "kind" else name(str(each)) for key, each in raw["object"].items()}
    if _NAME.fullmatch(raw["object"]["namespace"]):  # Events and reports are written there, whatever it is called
        subject["namespace"] = raw["object"]["namespace"]
    out: Record = {
        **raw,
        "user": {"username": _who(raw["user"]["username"]), "groups": [*map(_who, raw["user"].get("groups", ()))]},
        "object": cast("RecordedObject", subject),
        "changes": [_change(each, names) for each in raw["changes"]],
        "findings": [_finding(each, names) for each in raw["findings"]],
    }
    if raw["runtime"]:
        out["runtime"] = {**raw["runtime"], "name": name(raw["runtime"]["name"])}
    if raw["owner"]:
        out["owner"] = {**raw["owner"], "name": name(raw["owner"]["name"])}
    if raw["framework"]:
        out["framework"] = name(raw["framework"])
    if "message" in raw:
        out["message"] = text(raw["message"], names)
    return out


def hashed(given: object) -> str:
    """Return what stands in place of a text, or of another value as JSON."""
    data = given.encode("utf-8", "backslashreplace") if isinstance(given, str) else orjson.dumps(given, default=str)
    return f"sha256:{hashlib.sha256(data).hexdigest()[:12]} ({len(data)} bytes)"


def is_name(given: str) -> bool:
    """Whether Kubernetes takes a text as the name of an object, and it is no token of a known form."""
    return _has_form(_NAME, given)


def _has_form(form: re.Pattern[str], given: str) -> bool:
    return form.fullmatch(given) is not None and (len(given) < _TOKEN or not _is_token(given))


@functools.lru_cache(maxsize=1024)  # of short texts, which have the form of a name
def _is_token(given: str) -> bool:
    return scanner.text(given) != given


@functools.lru_cache(maxsize=1024)  # of texts that accounts.py has cut
def _who(given: str) -> str:
    """Return the name of a user or a group; the hash of a token, which only a stranger at the port sends as a name."""
    return hashed(given) if len(given) >= _TOKEN and scanner.text(given) == scanner.MARK else given


def name(given: str) -> str:
    """Return the name of an object; the hash of a text that Kubernetes would refuse."""
    return given if not given or is_name(given) else hashed(given)


def field(given: str) -> str:
    """Return a field path in which names of objects, members and known variables are shown."""
    return _place(given).shown


def value(given: object, path: str) -> object:
    """Return the value of the field `path`, with hashes in place of what is not known."""
    return _value(given, _place(path))


def text(given: str, names: Collection[str] = ()) -> str:
    """Return a sentence of Muster with hashes in place of the words that are neither Muster's nor among `names`."""
    if len(given) > _LONGEST:
        given = f"{given[:_LONGEST].rpartition(' ')[0]} …"
    shown = _remembered_sentence(given) if len(given) <= _REMEMBERED else _sentence(given)
    return _sentence(given, names) if names and shown != given else shown


def _change(change: RecordedChange, names: Collection[str]) -> RecordedChange:
    place = _place(change["field"])
    out: RecordedChange = {
        **change,
        "path": _pointer(change["path"]),
        "field": place.shown,
        "reason": text(change["reason"], names),
    }
    if "before" in change:
        out["before"] = _value(change["before"], place)
    if "after" in change:
        out["after"] = _value(change["after"], place)
    return out


def _finding(finding: RecordedFinding, names: Collection[str]) -> RecordedFinding:
    place = _place(finding["field"])
    shown = _value(finding["value"], place)
    return {**finding, "field": place.shown, "value": shown, "message": text(finding["message"], names)}


def _sentence(given: str, names: Collection[str] = ()) -> str:
    out: list[str] = []
    hidden: list[str] = []  # words that follow each other, and what is between them
    for part in _BLANK.split(given):
        core = part.strip(_AROUND)
        if not core or core.isspace() or _is_known(core, names):
            if hidden and not part.isspace():
                out += _covered(hidden)
                hidden = []
            (hidden or out).append(part)
        else:
            hidden.append(part)
    return "".join([*out, *_covered(hidden)] if hidden else out)


_remembered_sentence = functools.lru_cache(maxsize=2048)(_sentence)


def _covered(hidden: Sequence[str]) -> Iterator[str]:
    """Yield a hash in place of hidden words, and what stands around them."""
    whole = "".join(hidden)
    words = whole.rstrip()
    core = words.strip(_AROUND)
    begin = words.index(core)
    yield words[:begin] + hashed(core) + words[begin + len(core) :] + whole[len(words) :]


def _is_known(word: str, names: Collection[str] = ()) -> bool:
    words = _tables().words
    if word in words or word in names or _AMOUNT.fullmatch(word):
        return True
    parts = [part for part in _INSIDE.split(word) if part]
    return all(part in words or part in names or part.strip("-") in words or _NUMBER.fullmatch(part) for part in parts)


def _place(path: str) -> _Place:
    return _remembered_place(path) if len(path) <= _REMEMBERED else _read_place(path)


def _read_place(path: str) -> _Place:
    places, shown, position = _tables().places, [], 0
    member = kind = key = ""
    while step := _STEP.match(path, position):
        plain, keyed = step.groups()
        position = step.end()
        part = plain or keyed
        if kind == "map" or (kind == "variables" and plain is None):
            kind, key = ("label", part) if kind == "map" else ("variable", part)
            is_shown = _is_known(part)
        elif plain is None:
            is_shown = is_name(part) or _is_known(part)
        else:
            member, is_shown = plain, plain in _tables().words
            if kind != "variable" or plain != "value":
                kind = _kind(plain, places)
        told = part if is_shown else hashed(part)
        shown.append(step.group().replace(part, told) if part else step.group())
    rest = path[position:]
    return _Place("".join([*shown, hashed(rest) if rest else ""]), member, kind, key)


_remembered_place = functools.lru_cache(maxsize=2048)(_read_place)


def _kind(member: str, places: Mapping[str, frozenset[str]]) -> str:
    if member in places["commands"]:
        return "command"
    if member in places["maps"]:
        return "map"
    return "variables" if member == "env" else ""


@functools.lru_cache(maxsize=1024)  # kept short by the API server, and by the limits of a review
def _pointer(path: str) -> str:
    parts = path.split("/")
    return "/".join(part if _is_known(part.replace("~1", "/")) else hashed(part) for part in parts)


def _value(given: object, at: _Place, level: int = 0) -> object:
    if given is None or isinstance(given, bool | float) or (isinstance(given, int) and abs(given) < 2**53):
        return given
    if isinstance(given, str):
        return given if not given or _is_shown(given, at) else hashed(given)
    if isinstance(given, list | tuple) and level < _DEEPEST:
        if at.kind == "command":
            return _command(given)
        entry = replace(at, kind="variable") if at.kind == "variables" else at
        return [_value(each, entry, level + 1) for each in given]
    if isinstance(given, Mapping) and level < _DEEPEST:
        return dict(_members(given, at, level + 1))
    return hashed(given)


def _members(given: Mapping[object, object], at: _Place, level: int) -> Iterator[tuple[str, object]]:
    places = _tables().places
    named = given.get("name", at.key) if at.kind == "variable" else ""
    for each, item in given.items():
        member = str(each)
        if not _is_known(member):
            yield hashed(member), hashed(item)
        elif at.kind == "map":
            yield member, _value(item, _Place("", "", "label", member), level)
        elif named and member in {"name", "value"}:
            yield member, _value(item, _Place("", member, "variable", str(named)), level)
        else:
            yield member, _value(item, _Place("", member, _kind(member, places), ""), level)


def _is_shown(given: str, at: _Place) -> bool:
    """Whether a text is one that its place can have."""
    places = _tables().places
    if at.kind == "command":
        return _command([given]) == [given]
    if at.kind == "variable":
        return _is_known(given) if at.member == "name" else _is_setting(given, at.key, "environment")
    if at.kind == "label":
        return at.key in places["labels"] and is_name(given)
    if at.member in places["images"]:
        return _has_form(_IMAGE, given)
    is_word = at.member in places["words"] and _is_known(given)
    return is_word or (at.member in places["names"] and is_name(given)) or _AMOUNT.fullmatch(given) is not None


def _is_setting(given: str, key: str, kind: str) -> bool:
    """Whether the value of a variable or a flag is a host, or else a number, a word or a reference."""
    places = _tables().places
    if key in places["hosts"]:
        return _has_form(_HOST, given)
    if key not in places[kind]:
        return False
    reference = _REFERENCE.fullmatch(given)
    return _is_known(reference[1] if reference else given)


def _command(words: Sequence[object]) -> list[object]:
    """Return the words of a command: programs, and flags of a table with the values that they can have."""
    out: list[object] = []
    flag = ""  # whose value comes next; "?" behind a flag of no table
    for each in words:
        if not isinstance(each, str):
            out.append(_value(each, _NOWHERE))
        elif each.startswith("-") and len(each) > 1 and not _AMOUNT.fullmatch(each):
            spelled, equals, given = each.partition("=")
            flag = spelled.lstrip("-").replace("-", "_")
            if not _is_flag(flag):
                out.append(hashed(each))
                flag = "" if equals else "?"
            elif equals:
                out.append(f"{spelled}={given if _may_have(flag, given) else hashed(given)}")
                flag = ""
            else:
                out.append(each)
                flag = flag if _takes(flag) else ""
        elif flag:
            out.append(each if flag != "?" and _may_have(flag, each) else hashed(each))
            flag = ""
        else:
            out.append(_positional(each))
    return out


def _positional(word: str) -> str:
    """Return a word of a command that is no flag: a program, a module of one, or the name of an assignment."""
    name, equals, given = word.partition("=")
    if equals and _is_known(name):
        return f"{name}={hashed(given)}"
    programs = _tables().places["programs"]
    is_program = word in programs or (word.partition(".")[0] in programs and _is_known(word))
    return word if is_program or not word else hashed(word)


def _is_flag(flag: str) -> bool:
    places = _tables().places
    return flag in _tables().flags or any(flag in places[kind] for kind in ("flags", "switches", "hosts"))


def _takes(flag: str) -> bool:
    """Whether values may follow a flag."""
    specs = _tables().flags.get(flag, ())
    return any(spec["nargs"] for spec in specs) if specs else flag not in _tables().places["switches"]


def _may_have(flag: str, given: str) -> bool:
    """Whether a value is one that the types of a flag allow: all of them, where tables have several."""
    specs = _tables().flags.get(flag, ())
    if not specs or flag in _tables().places["hosts"]:
        return _is_setting(given, flag, "flags")
    return all(_fits(spec, given) for spec in specs)


def _fits(spec: Mapping[str, object], given: str) -> bool:
    if choices := spec.get("choices"):
        return given in cast("Collection[str]", choices)
    kinds = str(spec["type"]).split("|")
    return "str" not in kinds and "json" not in kinds and "object" not in kinds and bool(_AMOUNT.fullmatch(given))


@functools.cache
def _tables() -> _Tables:
    root = importlib.resources.files("muster")
    toml = tomllib.loads((root / "audit" / "known.toml").read_text(encoding="utf-8"))
    places = {kind: frozenset(str(listed).split()) for kind, listed in toml.items()}
    words = set().union(*places.values())
    flags: dict[str, list[Mapping[str, object]]] = {}
    for file in (each for source in _SOURCES for each in _files(root / source)):
        source = file.read_text(encoding="utf-8")
        words.update(_SOURCE_WORD.findall(source))
        if file.name.endswith(".json"):
            for flag, spec in _specs(json.loads(source)):
                flags.setdefault(flag, []).append(spec)
    return _Tables(places, frozenset(words), flags)


def _files(folder: Traversable) -> Iterator[Traversable]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _files(each)
        elif each.name.endswith((".py", ".json", ".toml")):
            yield each


def _specs(table: object) -> Iterable[tuple[str, Mapping[str, object]]]:
    """Yield the flags of a table, under all their spellings: objects with `nargs` and `type`."""
    if not isinstance(table, dict):
        return
    for flag, each in table.items():
        if isinstance(each, dict) and "nargs" in each and "type" in each:
            for spelling in (flag, *each.get("spellings", ())):
                yield spelling.lstrip("-").replace("-", "_"), each
        else:
            yield from _specs(each)
