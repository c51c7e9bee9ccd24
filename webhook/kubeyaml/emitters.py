"""Emitters: YAML that every parser reads back as the same values.

PyYAML quotes words that PyYAML would misread. Go's parsers misread others (`1e3`, `y`, `0o17`), so those are quoted
too. Members keep their order, a script of several lines stays a block, and a value that occurs twice is written twice,
because users of kubectl do not expect aliases. A text with characters that a terminal obeys is quoted, with escapes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import yaml

from muster.webhook.kubeyaml import glyphs, scalars

__all__ = ["Row", "dump", "dump_all"]

_WIDTH = 10_000  # characters before a line is folded, so that a command line stays one line

_Base: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)  # Any: libyaml's class, or the slow one with its interface


class Row(list[Any]):
    """A list that is shown on one line."""


class _Dumper(_Base):  # type: ignore[misc]  # as above
    """Writes values of JSON's types."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002  # PyYAML asks for each value
        return True


def _text(dumper: Any, text: str) -> Any:
    style = None
    if glyphs.is_hidden(text):  # only this style has escapes
        style = '"'
    elif "\n" in text:
        style = "|"
    elif text == "<<" or scalars.plain(text) != text:
        style = "'"
    return dumper.represent_scalar(scalars.TAG + "str", text, style=style)


_Dumper.add_representer(str, _text)
_Dumper.add_representer(Row, lambda dumper, row: dumper.represent_sequence(scalars.TAG + "seq", row, flow_style=True))


def dump(value: Any) -> str:
    """Return one document as YAML, without a `---`.

    Args:
        value: of JSON's types.
    """
    return dump_all([value])


def dump_all(values: Iterable[Any]) -> str:
    """Return a stream of documents; a `---` stands between them when there are several."""
    text: str = yaml.dump_all(
        values, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True, width=_WIDTH
    )
    return glyphs.shown(text, _escape)


def _escape(character: str) -> str:
    return f"\\U{ord(character):08X}" if ord(character) > 0xFFFF else f"\\u{ord(character):04X}"
