"""Sources: documents from files, folders and standard input, each with its place.

Faults are collected, so that one run shows all of a folder. Sizes are checked before anything is parsed. A Kubernetes
list (`kubectl get -o yaml`) is taken apart into its items.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from msgspec import Struct, field

from muster.strategies.documents import decoding
from muster.strategies.documents.model import Namespace, ObjectMeta
from muster.webhook.kubeyaml import composer, jsons
from muster.webhook.kubeyaml.composer import Parsed, Repeat, Spot, YamlError

__all__ = ["MAX_BYTES", "MAX_FAULTS", "STDIN", "Input", "Origin", "Source", "Unreadable", "read", "read_text"]

MAX_BYTES = 16 * 1024 * 1024
"""Maximum size of one file."""
MAX_FAULTS = 100
"""Documents and items of one file that cannot be read, before the rest of the file is left unread."""
STDIN = "-"
_TEMPLATE = "; {{ belongs to a template, as of a chart: give the files that `helm template` writes"
_TOO_MANY = f"has more than {MAX_FAULTS} documents that cannot be read; the rest of it was not read"
_SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_STDIN_NAME = "stdin"


class Origin(Struct, frozen=True):
    """The place of a document.

    Attributes:
        file: as it was given; "stdin".
        document: number in the file, from 1; 0 for the whole file.
        item: number in a Kubernetes list, from 1; 0 outside of one.
        line: of the start of the document, or of the fault; 0 when it is not known.
    """

    file: str
    document: int = 0
    item: int = 0
    line: int = 0

    def __str__(self) -> str:
        """`jobs.yaml:doc 2 item 3`."""
        number = f":doc {self.document}" if self.document else ""
        return f"{self.file}{number}{f' item {self.item}' if self.item else ''}"


class Source(Struct, frozen=True, dict=True):
    """One Kubernetes object from a file; `apiVersion` and `kind` are strings, all else is unchecked.

    Attributes:
        origin: the place of the object.
        document: the object.
        parsed: the document of the text that it is in; None where it has no text.
        within: where it is in that document, `("items", 2)` for the third of a list.
        repeats: members of the object that are written twice.
    """

    origin: Origin
    document: Mapping[str, Any]
    parsed: Parsed | None = None
    within: tuple[str | int, ...] = ()
    repeats: tuple[Repeat, ...] = ()

    @property
    def kind(self) -> str:
        """`TrainJob`."""
        return str(self.document["kind"])

    @property
    def group(self) -> str:
        """API group, "" for the core group."""
        return str(self.document["apiVersion"]).rpartition("/")[0]

    @functools.cached_property
    def metadata(self) -> ObjectMeta:
        """`metadata` of the object; a member of a wrong type has its default."""
        return decoding.read({"metadata": self.document.get("metadata")}, Namespace).metadata

    @property
    def title(self) -> str:
        """`TrainJob/llama`, or `TrainJob/llama-*` for a generated name."""
        about = decoding.member(self.document, "metadata")  # a name that is a number is shown as it is written
        generated = f"{about['generateName']}*" if about.get("generateName") else "(no name)"
        return f"{self.kind}/{about.get('name') or generated}"

    @property
    def text(self) -> str:
        """The text of the object, with comments; "" where it has none of its own."""
        return self.parsed.text if self.parsed is not None and not self.within else ""

    def find(self, path: Iterable[str | int]) -> Spot | None:
        """Return where a field of the object is written, or what is around it; None where the object has no text."""
        return self.parsed.find((*self.within, *path)) if self.parsed is not None else None


class Unreadable(Struct, frozen=True):
    """A part of the input that could not be read, and why."""

    origin: Origin
    message: str

    def __str__(self) -> str:
        """`jobs.yaml:doc 2 line 7: is nested more than 128 levels deep`."""
        line = f" line {self.origin.line}" if self.origin.line else ""
        return f"{self.origin}{line}: {self.message}"


class Input(Struct):
    """Everything that was read."""

    sources: list[Source] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)


def read(names: Iterable[str], stdin: BinaryIO | None = None) -> Input:
    """Read files, folders (their *.yaml, *.yml and *.json, at any depth, sorted) and `-`, in the order given.

    Args:
        names: paths; a repeated one is read once.
        stdin: the stream for `-`; by default the standard input of the process.
    """
    found = Input()
    for path in dict.fromkeys(names):
        _read_one(path, stdin, found)
    return found


def read_text(name: str, text: str) -> Input:
    """Read a text as if it stood in a file of this name."""
    found = Input()
    _add(Origin(name), text.encode(), found)
    return found


def _read_one(name: str, stdin: BinaryIO | None, found: Input) -> None:
    try:
        if name == STDIN:
            _add(Origin(_STDIN_NAME), (stdin or sys.stdin.buffer).read(MAX_BYTES + 1), found)
            return
        for path in _files(Path(name)):
            with path.open("rb") as stream:
                _add(Origin(str(path)), stream.read(MAX_BYTES + 1), found)
    except OSError as error:
        where = str(error.filename) if isinstance(error.filename, str) else name
        found.unreadable.append(Unreadable(Origin(where), f"cannot be read: {error.strerror or error}"))
    except ValueError as error:
        found.unreadable.append(Unreadable(Origin(name), str(error)))


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    inside = sorted(each for each in path.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    if not inside:
        raise ValueError(f"the folder has no {', '.join('*' + suffix for suffix in sorted(_SUFFIXES))}")
    return inside


def _add(file: Origin, content: bytes, found: Input) -> None:
    """Parse the bytes of one file; a document that cannot be read does not hide the others."""
    faults = 0
    try:
        for each in _parts(file, _text(content)):
            if isinstance(each, Source):
                found.sources.append(each)
            elif faults == MAX_FAULTS:
                found.unreadable.append(Unreadable(file, _TOO_MANY))
                return
            else:
                found.unreadable.append(each)
                faults += 1
    except ValueError as error:
        found.unreadable.append(Unreadable(file, str(error)))


def _parts(file: Origin, text: str) -> Iterator[Source | Unreadable]:
    for parsed in (_jsons if _is_json(file.file, text) else composer.load_each)(text):
        if isinstance(parsed, YamlError):
            written = text.splitlines()[parsed.line - 1 : parsed.line]
            hint = _TEMPLATE if any("{{" in line for line in written) else ""
            yield Unreadable(Origin(file.file, parsed.document, 0, parsed.line), f"{parsed}{hint}")
        elif parsed.value is not None:
            origin = Origin(file.file, parsed.number, 0, parsed.line)
            yield from _objects(Source(origin, parsed.value, parsed, repeats=tuple(parsed.repeats)))


def _jsons(text: str) -> Iterator[Parsed | YamlError]:
    """Read JSON up to the first fault, since nothing marks where the next document begins."""
    try:
        yield from jsons.load_all(text)
    except YamlError as error:
        yield error


def _text(content: bytes) -> str:
    if len(content) > MAX_BYTES:
        raise ValueError(f"is larger than {MAX_BYTES // 1024**2} MiB; split it")
    try:
        return content.decode("utf-8-sig").replace("\n\ufeff", "\n")  # of files that were joined
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"is not UTF-8 at line {line} (byte {error.start}); save it as UTF-8") from error


def _is_json(file: str, text: str) -> bool:
    """Whether a text is read as JSON: where it starts like it, unless only YAML can read it, such as a line `---`."""
    begins = file.endswith(".json") or (text.lstrip()[:1] in ("{", "[") and jsons.is_json(text))
    return begins and composer.START.search(text) is None


def _objects(around: Source) -> Iterator[Source | Unreadable]:
    origin, value = around.origin, around.document
    fault = _fault(value)
    if fault:
        yield Unreadable(origin, fault)
    elif not _is_list(value):
        yield around
    else:
        for number, item in enumerate(value["items"], 1):
            place = Origin(origin.file, origin.document, number, origin.line)
            here = ("items", number - 1)
            repeats = tuple(each._replace(path=each.path[2:]) for each in around.repeats if each.path[:2] == here)
            within = (*around.within, *here)
            yield from _objects(Source(place, _typed_item(item, value), around.parsed, within, repeats))


def _fault(value: Any) -> str:
    """Return why a document is not a Kubernetes object; "" when it may be one."""
    if not isinstance(value, dict):
        return f"is {_called(value)}, not a Kubernetes object"
    for member in ("apiVersion", "kind"):
        if not isinstance(value.get(member), str) or not value[member]:
            return f"{member}: every Kubernetes object needs one, as a string; add it"
    return ""


def _is_list(value: Mapping[str, Any]) -> bool:
    """Whether it is a Kubernetes list: it has items and, unlike other objects, no name."""
    metadata = value.get("metadata")
    named = isinstance(metadata, dict) and "name" in metadata
    return value["kind"].endswith("List") and isinstance(value.get("items"), list) and not named


def _typed_item(item: Any, around: Mapping[str, Any]) -> Any:
    """Add to an item of a typed list (`TrainJobList`) the type that follows from the list; the API server omits it."""
    if not isinstance(item, dict) or around["kind"] == "List":
        return item
    return {"apiVersion": around["apiVersion"], "kind": around["kind"].removesuffix("List"), **item}


def _called(value: Any) -> str:
    return {list: "a list", str: "a text", bool: "true or false"}.get(type(value), "a number")
