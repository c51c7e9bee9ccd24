"""Emitters: YAML that every parser reads back as the same values.

PyYAML quotes words that PyYAML would misread. Go's parsers misread others (`1e3`, `y`, `0o17`), so those are quoted
too. Members keep their order, a script of several lines stays a block, and a value that occurs twice is written twice,
because users of kubectl do not expect aliases. Characters that a terminal does not show but obeys (control characters,
those that change the order of a text) are escapes: a document may be written so that a reader sees something else.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import yaml

from muster.webhook.kubeyaml import scalars

__all__ = ["Row", "dump", "dump_all", "is_hidden", "shown"]

_WIDTH = 10_000  # characters before a line is folded, so that a command line stays one line
_SUSPECTS = re.compile(r"[^\n\t -~]")


class Row(list[Any]):
    """A list that is shown on one line."""


class _Dumper(yaml.CSafeDumper):
    """Writes values of JSON's types."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML asks for each value
        return True


def _text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None
    if is_hidden(text):  # only this style has escapes
        style = '"'
    elif "\n" in text:
        style = "|"
    elif text == "<<" or scalars.plain(text) != text:
        style = "'"
    return dumper.represent_scalar(scalars.TAG + "str", text, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Row, lambda dumper, row: dumper.represent_sequence(scalars.TAG + "seq", row, flow_style=True))


def dump(value: Any) -> str:
    """Return one document of JSON's types as YAML, without a `---`."""
    return dump_all([value])


def dump_all(values: Iterable[Any]) -> str:
    """Return a stream of documents; a `---` stands between them when there are several."""
    text: str = yaml.dump_all(
        values, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=_WIDTH
    )
    return shown(text, lambda each: f"\\U{ord(each):08X}" if ord(each) > 0xFFFF else f"\\u{ord(each):04X}")


def is_hidden(text: str) -> bool:
    """Whether a text has a character that is not seen; ends of lines, tabs and spaces are seen."""
    return not text.isprintable() and any(_is_hidden(found[0]) for found in _SUSPECTS.finditer(text))


def shown(text: str, escape: Callable[[str], str]) -> str:
    """Replace each character that is not seen by its escape."""
    if text.isascii() and text.isprintable():
        return text
    return _SUSPECTS.sub(lambda found: escape(found[0]) if _is_hidden(found[0]) else found[0], text)


def _is_hidden(character: str) -> bool:
    return not character.isprintable() and unicodedata.category(character) != "Zs"
