"""The files of a team's own cases for `muster test`: which there are, what they may hold, and what they say.

Each fault has the file, line and column where it stands. The format is in docs/check.md.

"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from msgspec import Struct

from muster.strategies.documents.findings import Severity
from muster.webhook import kubeyaml
from muster.webhook.admission.policies import Mode
from muster.webhook.cli import commandline

__all__ = [
    "DECISIONS",
    "EXPECTATION",
    "EXPECTED",
    "JOB",
    "OLD",
    "SETTINGS",
    "SETTINGS_FILE",
    "Fault",
    "FaultError",
    "Form",
    "Settings",
    "find",
    "read_form",
    "settings",
]

DECISIONS = ("patched", "unchanged", "denied", "skipped", "error")
"""What a case may expect of a job: it is changed, not changed or refused, or Muster is off or cannot decide."""

_Place = tuple[str | int, ...]
Form = str | tuple[str, ...] | list["Form"] | Mapping[str, "Form"]
"""`text`, `any`, one of several words, a list of a form, or an object whose members have forms."""

SETTINGS: Mapping[str, Form] = {"namespace": "text", "config": "text", "runtimes": ["text"], "objects": ["text"]}
"""The form of case.yaml."""
EXPECTED: Mapping[str, Form] = {
    "decision": DECISIONS,
    "framework": "text",
    "mode": tuple(each.value for each in Mode),
    "patch": [{"op": ("add", "replace", "remove"), "path": "text", "value": "any", "rule": "text"}],
    "findings": [
        {
            "severity": tuple(each.value for each in Severity),
            "rule": "text",
            "field": "text",
            "value": "any",
            "message": "text",
        }
    ],
}
"""The form of expected.yaml."""

_MAX_BYTES = 1024 * 1024
_MOST = 20  # faults of one file
_SHOWN = 60  # characters


class Fault(NamedTuple):
    """What is wrong with a file, and where; a line of 0 stands for the whole file."""

    file: str
    line: int
    column: int
    message: str

    def __str__(self) -> str:
        """`cases/sft/expected.yaml:3:5: message`."""
        return f"{self.file}{f':{self.line}:{self.column}' if self.line else ''}: {self.message}"


class FaultError(Exception):
    """A case cannot be tried because of its files."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


def read_form(path: Path, form: Mapping[str, Form]) -> dict[str, Any]:
    """Return the object that a file holds; an empty file holds an empty one.

    Raises:
        FaultError: the file cannot be read, or has not the form.
    """
    text = _text(path)
    try:
        documents = [each for each in kubeyaml.load_all(text) if each.value is not None]
    except kubeyaml.YamlError as error:
        raise FaultError(Fault(str(path), error.line, 1, str(error))) from error
    if not documents:
        return {}
    if len(documents) > 1:
        raise FaultError(Fault(str(path), documents[1].line, 1, "a second document starts here; only one is allowed"))
    first = documents[0]
    faults = []
    for place, message in _faults(form, first.value, ()):
        faults.append(Fault(str(path), *first.find(place), message))
        if len(faults) == _MOST:
            break
    if faults:
        raise FaultError(*faults)
    return dict(first.value)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise FaultError(Fault(str(path), 0, 0, f"cannot be read: {error.strerror or error}")) from error
    if len(content) > _MAX_BYTES:
        raise FaultError(Fault(str(path), 0, 0, f"is larger than {_MAX_BYTES // 1024**2} MiB"))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FaultError(Fault(str(path), line, 1, "is not UTF-8; save it as UTF-8")) from error


def _faults(form: Form, value: object, place: _Place) -> Iterator[tuple[_Place, str]]:
    match form, value:
        case dict(), dict():
            for key, member in value.items():
                if key in form:
                    yield from _faults(form[key], member, (*place, key))
                else:
                    hint = _meant(key, tuple(form)) or f"; it may be {_either(tuple(form))}"
                    yield (*place, key), f"{_named((*place, key))}is not known here{hint}"
        case dict(), _:
            yield place, f"{_named(place)}{_shown(value)}: must be an object with {_either(tuple(form))}"
        case list(), list():
            for number, entry in enumerate(value):
                yield from _faults(form[0], entry, (*place, number))
        case list(), _:
            yield place, f"{_named(place)}{_shown(value)}: must be a list"
        case tuple(), _ if value not in form:
            yield place, f"{_named(place)}{_shown(value)}: must be {_either(form)}{_meant(value, form)}"
        case "text", _ if type(value) is not str:
            yield place, f"{_named(place)}{_shown(value)}: must be a text"


def _named(place: _Place) -> str:
    """Return `patch[0].op: `, "" for the whole file."""
    text = "".join(f"[{each}]" if isinstance(each, int) else f".{each[:_SHOWN]}" for each in place)
    return f"{text.removeprefix('.')}: " if text else ""


def _shown(value: object) -> str:
    called: Mapping[type, str] = {dict: "an object", list: "a list"}
    text = called.get(type(value)) or repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _either(words: tuple[str, ...]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}"


def _meant(word: object, known: tuple[str, ...]) -> str:
    return commandline.meant(word, known) if isinstance(word, str) else ""


JOB, OLD, EXPECTATION, SETTINGS_FILE = "job.yaml", "old.yaml", "expected.yaml", "case.yaml"
"""The files of a case; only the first two of a JobSet or TrainJob are Kubernetes objects."""


class Settings(Struct, frozen=True):
    """What a case is decided with.

    Attributes:
        namespace: of objects that name none.
        config: the service's configuration file.
        runtimes: files and folders, instead of the runtimes that come with Muster.
        objects: files and folders with further objects of the cluster.
    """

    namespace: str = "default"
    config: Path | None = None
    runtimes: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()


def find(roots: Iterable[Path]) -> list[Path]:
    """Return the folders of all cases below the roots, each once: those with a job or an expectation.

    Raises:
        FaultError: a root is not a folder.
    """
    found: dict[Path, None] = {}
    for root in roots:
        if not root.is_dir():
            why = "is not a folder; name the folder of a case, or one with cases in it" if root.exists() else ""
            raise FaultError(Fault(str(root), 0, 0, why or "does not exist"))
        inside = {path.parent for name in (JOB, EXPECTATION) for path in root.rglob(name)}
        found |= dict.fromkeys(sorted(inside))
    return list(found)


def settings(case: Path, roots: Iterable[Path]) -> Settings:
    """Return the settings of a case: of its own case.yaml, then of the folders above, key by key.

    Above the root that was named, folders count as long as each has a case.yaml.

    Raises:
        FaultError: one of the files cannot be used.
    """
    out: dict[str, Any] = {}
    for folder in _above(case, list(roots)):
        path = folder / SETTINGS_FILE
        if path.is_file():
            out = {**_placed(read_form(path, SETTINGS), folder), **out}
    return Settings(**out)


def _above(case: Path, roots: list[Path]) -> Iterator[Path]:
    within = [root for root in roots if case == root or root in case.parents]
    root = min(within, key=lambda each: len(each.parts), default=case)
    yield case
    yield from (parent for parent in case.parents if parent == root or root in parent.parents)
    yield from itertools.takewhile(lambda each: (each / SETTINGS_FILE).is_file(), root.resolve().parents)


def _placed(read: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Return settings; paths are those of the folder in which they are written."""
    lists = {key: tuple(str(folder / each) for each in read[key]) for key in ("runtimes", "objects") if key in read}
    return {**read, **lists, **({"config": folder / read["config"]} if "config" in read else {})}
