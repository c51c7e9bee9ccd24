"""HTML as values: text is always escaped when it becomes part of an element.

A record has names, arguments and errors that every user of the cluster can write. In each text, the special characters
of HTML are escaped, and invisible characters and those that change the direction of text (control characters,
bidirectional marks) are written as escapes.
"""

from __future__ import annotations

import html
from collections.abc import Iterable

__all__ = ["Attribute", "Child", "Markup", "element", "joined", "visible"]

_VOID = frozenset({"br", "input", "link", "meta"})


class Markup(str):
    """HTML that needs no escaping; only `element` and `joined` make it."""

    __slots__ = ()


Child = str | int | None | Iterable["Child"]
Attribute = str | int | bool | None


def element(tag: str, *children: Child, **attributes: Attribute) -> Markup:
    """Make an element.

    Args:
        tag: the name of the element.
        children: text, which is escaped, elements, or iterables of both; None is left out.
        attributes: a trailing `_` is dropped and others become `-` (`class_`, `aria_label`); True gives an attribute
            without a value, False and None give no attribute.
    """
    opening = f"<{tag}{''.join(_attribute(name, value) for name, value in attributes.items())}>"
    return Markup(opening) if tag in _VOID else Markup(f"{opening}{joined(children)}</{tag}>")


def joined(children: Child) -> Markup:
    """Concatenate children."""
    if children is None:
        return Markup()
    if isinstance(children, Markup):
        return children
    if isinstance(children, str | int):
        return Markup(html.escape(visible(str(children))))
    return Markup("".join(joined(child) for child in children))


def visible(text: str) -> str:
    """Write invisible characters as escapes, except ends of lines and tabs."""
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
