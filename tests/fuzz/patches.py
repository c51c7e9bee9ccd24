"""JSON Patch (RFC 6902) and JSON Pointer (RFC 6901), written for the fuzzer alone: the oracle of Muster's patches.

It is stricter than the RFC asks: an operation needs exactly the members of its kind, an array index has no leading
zero, and only the operations that the API server gets from Muster exist.
"""

from __future__ import annotations

from tests.fuzz import cases

__all__ = ["PatchError", "applied"]

_MEMBERS = {"add": {"op", "path", "value"}, "replace": {"op", "path", "value"}, "remove": {"op", "path"}}


class PatchError(ValueError):
    """A patch that an API server would refuse."""


def applied(document, operations):
    """The document after all operations; the given one stays as it is."""
    whole = [cases.copied(document)]
    if not isinstance(operations, list):
        raise PatchError(f"a patch is a list, not {type(operations).__name__}")
    for number, operation in enumerate(operations):
        try:
            _apply(whole, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise PatchError(f"operation {number} {str(operation)[:200]}: {type(error).__name__} {error}") from error
    return whole[0]


def _apply(whole, operation):
    op = operation["op"]
    if set(operation) != _MEMBERS.get(op):
        raise PatchError(f"members {sorted(operation)}")
    holder, last = _place(whole, operation["path"])
    value = cases.copied(operation.get("value"))
    if isinstance(holder, list):
        _in_list(holder, last, op, value)
    elif not isinstance(holder, dict):
        raise PatchError(f"{type(holder).__name__} has no members")
    elif op == "remove":
        del holder[last]
    else:
        if op == "replace" and last not in holder:
            raise PatchError("replaces what is not there")
        holder[last] = value


def _in_list(holder, last, op, value):
    if op == "add":
        holder.insert(len(holder) if last == "-" else _index(last, len(holder)), value)
    elif op == "replace":
        holder[_index(last, len(holder) - 1)] = value
    else:
        del holder[_index(last, len(holder) - 1)]


def _place(whole, pointer):
    """The container and the key that a pointer names; the whole document is item 0 of a list."""
    if pointer == "":
        return whole, "0"
    if not pointer.startswith("/"):
        raise PatchError("a pointer begins with /")
    *way, last = (part.replace("~1", "/").replace("~0", "~") for part in pointer[1:].split("/"))
    node = whole[0]
    for part in way:
        node = node[_index(part, len(node) - 1)] if isinstance(node, list) else node[part]
    return node, last


def _index(text, most):
    if not (text.isascii() and text.isdigit()) or (text != "0" and text.startswith("0")) or int(text) > most:
        raise PatchError(f"there is no item {text!r}")
    return int(text)
