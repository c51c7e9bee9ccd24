"""HTML as values: text is escaped when it becomes part of an element, so that nobody can forget to.

A record holds names, arguments and errors that anybody with a namespace can write. Two things are done to each text:
HTML's own characters are escaped, and characters that would not be seen, or would turn round how others are read
(control characters, bidirectional marks), are written as escapes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

__all__ = ["Attribute", "Child", "Markup", "element", "joined", "visible"]

_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """HTML that is safe as it stands; made by `element` and `joined` only."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
Attribute = str | int | bool | None


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """Make an element.

    Args:
        tag: its name.
        children: text, which is escaped, elements, or iterables of both; None is nothing.
        attributes: a trailing `_` is dropped and others become `-` (`class_`, `aria_label`); True is an attribute
            without a value, False and None are none.
    """
    opening = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Markup(opening) if tag in _VOID else Markup(f"{opening}{joined(children)}</{tag}>")


def joined(children: Child) -> Markup:
    """Put children behind each other."""
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str | int):
        return Markup(html.escape(visible(str(children))))
    return Markup("".join(joined(child) for child in children))


def visible(text: str) -> str:
    """Write what could not be seen as escapes; ends of lines and tabs stay."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in "\n\t" else _escaped(each) for each in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{html.escape(visible(str(value)))}"'
