"""Words of a shell: what quotes, variables and substitutions make of them before a program gets them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from strategies.launches.syntax import Part, Unreadable, Word

__all__ = ["Loose", "Scope", "Value", "Words"]

MAX_TEXT = 32 * 1024
"""Longest text of one word, in characters: variables that name each other may double it with each line."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
_SUM = re.compile(r"[0-9+\-*/%() ]{1,80}")
_FINDERS = frozenset({"which", "command", "type", "readlink", "realpath"})


class Loose(str):
    """A word that stands for any number of words, because its value is known only in the pod."""

    __slots__ = ()


Value = str | list[str] | None
"""Of a variable: text, an array, or None where it was set to what cannot be read."""


@dataclass(slots=True)
class Scope:
    """Variables of one shell.

    Attributes:
        variables: those that the text has set; the others come from the container's env.
        exported: names of those that programs get.
        name: `$0`.
        arguments: `$1` and the following.
    """

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    name: str = "bash"
    arguments: list[str] = field(default_factory=list)

    def inner(self) -> Scope:
        """Return the scope of a subshell."""
        return Scope(dict(self.variables), set(self.exported), self.name, list(self.arguments))

    def env(self) -> dict[str, str | None]:
        """Return the exported variables; None for one that cannot be read."""
        return {name: _scalar(self.variables[name]) for name in self.exported if name in self.variables}

    def assigned(self) -> dict[str, str | None]:
        """Return the variables that are not exported."""
        return {name: _scalar(value) for name, value in self.variables.items() if name not in self.exported}


def _scalar(value: Value) -> str | None:
    text = (value[0] if value else "") if isinstance(value, list) else value
    return None if text is None or _is_unseen(text) else text


def _is_unseen(text: str) -> bool:
    return "$" in text and not _REFERENCE.fullmatch(text)


@dataclass(slots=True)
class _Piece:
    """A part of a word: its text, whether it may be split at blanks, and whether it is known."""

    text: str
    split: bool = False
    known: bool = True
    fields: list[str] | None = None


class Words:
    """Expands the words of one text.

    Args:
        scope: the variables.
        run: called with the commands of each substitution, which run too.
    """

    def __init__(self, scope: Scope, run: Callable[[Part], None]) -> None:
        self._scope, self._run = scope, run

    def expand(self, word: Word) -> list[str]:
        """Return the words that a word becomes: none, one or several."""
        pieces = self._all(word.parts)
        loose = bool(pieces) and all(piece.split and not piece.known for piece in pieces)
        plain = "".join(part.written for part in word.parts if part.kind == "text" and not part.quoted)
        loose = loose or ("{" in plain and "}" in plain and ("," in plain or ".." in plain))
        joiner = _Joiner()
        for piece in pieces:
            joiner.add(piece)
        done = joiner.end()
        if sum(map(len, done)) > MAX_TEXT:
            raise Unreadable("a word grows longer than Muster reads")
        return [Loose(each) for each in done] if loose else done

    def one(self, word: Word) -> str:
        """Return the text of an assigned value or a here-document, which is not split."""
        text = "".join(_joined(piece) for piece in self._all(word.parts))
        if len(text) > MAX_TEXT:
            raise Unreadable("a variable grows longer than Muster reads")
        return text

    def _all(self, parts: Sequence[Part]) -> list[_Piece]:
        pieces: list[_Piece] = []
        for part in parts:
            pieces.extend(self._piece(part))
        return pieces

    def _piece(self, part: Part) -> list[_Piece]:
        if part.kind == "default":
            return self._default(part)
        reads = {
            "text": lambda each: _Piece(each.written),
            "variable": self._variable,
            "array": self._array,
            "substitution": self._substitution,
            "arithmetic": self._arithmetic,
            "process": self._process,
            "reference": lambda each: _Piece(each.written, known=False),
            "other": _unseen,
        }
        return [reads[part.kind](part)]

    def _array(self, part: Part) -> _Piece:
        value = self._scope.variables.get(part.name)
        return _Piece("", fields=_each(value, part)) if isinstance(value, list) else _unseen(part)

    def _process(self, part: Part) -> _Piece:
        self._run(part)
        return _Piece(part.written)

    def _variable(self, part: Part) -> _Piece:
        scope, name = self._scope, part.name
        if name in ("@", "*", "#") or name.isdecimal():
            return self._argument(part)
        if name in scope.variables:
            return self._set(part, scope.variables[name])
        if not (name[:1].isalpha() or name[:1] == "_") or part.operator:
            return _unseen(part)
        return _Piece(f"$({name})", split=not part.quoted, known=False)

    def _argument(self, part: Part) -> _Piece:
        arguments, name = self._scope.arguments, part.name
        if name == "#":
            return _Piece(str(len(arguments)))
        if name in ("@", "*"):
            whole = part.quoted and name == "*"
            return _Piece(" ".join(arguments)) if whole else _Piece("", fields=_each(arguments, part))
        index = int(name[:9])
        every = (self._scope.name, *arguments)
        return _value(every[index] if index < len(every) else "", split=not part.quoted)

    def _set(self, part: Part, value: Value) -> _Piece:
        if isinstance(value, list):
            index = part.operator or "0"
            if not index.isdecimal():
                return _unseen(part)
            value = value[int(index[:6])] if int(index[:6]) < len(value) else ""
        elif part.operator not in ("", "0"):
            return _unseen(part)
        return _unseen(part) if value is None else _value(value, split=not part.quoted)

    def _default(self, part: Part) -> list[_Piece]:
        scope, sign = self._scope, part.operator[-1]
        held = scope.variables.get(part.name)
        value = (held[0] if held else "") if isinstance(held, list) else held
        if sign == "?":
            return [self._variable(Part("variable", part.written, part.quoted, part.name))]
        if part.name not in scope.variables or value is None or "$" in value:
            if sign == "=":
                scope.variables[part.name] = None
            return [_unseen(part)]
        given = bool(value or not part.operator.startswith(":"))
        if (sign == "+") == given:
            found = [piece for each in part.parts for piece in self._inner(each)]
            if sign == "=":
                scope.variables[part.name] = "".join(_joined(each) for each in found)
            return found
        return [_value(value, split=not part.quoted)] if sign != "+" else []

    def _inner(self, part: Part) -> list[_Piece]:
        """Read a part of a default, which is split at its blanks where it has no quotes."""
        return [_Piece(part.written, split=not part.quoted)] if part.kind == "text" else self._piece(part)

    def _substitution(self, part: Part) -> _Piece:
        words = part.written.strip("`$() \t").split()
        if len(words) in (2, 3) and words[0] in _FINDERS and not words[-1].startswith(("-", "$")):
            return _Piece(words[-1])
        self._run(part)
        written = f"$( {part.written.strip('`')} )" if part.written.startswith("`") else part.written
        return _Piece(written, split=not part.quoted, known=False)

    def _arithmetic(self, part: Part) -> _Piece:
        inside = part.name
        known = _NAME.sub(self._number, inside[:200].replace("$", "").replace("{", "").replace("}", ""))
        if len(inside) <= 200 and "**" not in known and _SUM.fullmatch(known):
            result = _calculate(known.strip().replace("/", "//"))
            if result is not None:
                return _Piece(str(result))
        return _Piece(part.written, known=False)

    def _number(self, found: re.Match[str]) -> str:
        value = self._scope.variables.get(found[0])
        return value if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12 else "?"


def _each(words: Sequence[str], part: Part) -> list[str]:
    return list(words) if part.quoted else [piece for word in words for piece in word.split()]


def _unseen(part: Part) -> _Piece:
    return _Piece(part.written, split=not part.quoted, known=False)


def _value(text: str, *, split: bool) -> _Piece:
    return _Piece(text, split=split, known="$" not in text)


def _joined(piece: _Piece) -> str:
    return piece.text if piece.fields is None else " ".join(piece.fields)


class _Joiner:
    """Puts pieces together to words."""

    def __init__(self) -> None:
        self._done: list[str] = []
        self._open: list[str] | None = None

    def add(self, piece: _Piece) -> None:
        """Add a piece to the word that is open; one with blanks, or several fields, ends it."""
        splits = piece.fields is None and piece.split and piece.known
        parts = piece.text.split() if splits else [piece.text] if piece.fields is None else piece.fields
        if splits and piece.text[:1].isspace():
            self._close()
        for index, part in enumerate(parts):
            if index:
                self._close()
            self._open = self._open or []
            self._open.append(part)
        if splits and piece.text[-1:].isspace():
            self._close()

    def end(self) -> list[str]:
        """Return the words."""
        self._close()
        return self._done

    def _close(self) -> None:
        if self._open is not None:
            self._done.append("".join(self._open))
        self._open = None


def _calculate(text: str) -> int | None:
    """Calculate a sum of whole numbers as a shell does; None where it is not one."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None
    return _result(tree)


def _result(tree: ast.expr) -> int | None:
    if isinstance(tree, ast.Constant):
        return tree.value if isinstance(tree.value, int) else None
    if isinstance(tree, ast.UnaryOp):
        inner = _result(tree.operand)
        return None if inner is None else -inner if isinstance(tree.op, ast.USub) else inner
    if not isinstance(tree, ast.BinOp):
        return None
    left, right = _result(tree.left), _result(tree.right)
    if left is None or right is None or (right == 0 and isinstance(tree.op, (ast.FloorDiv, ast.Mod))):
        return None
    operation = _OPERATIONS.get(type(tree.op))
    return None if operation is None else operation(left, right)


def _divide(left: int, right: int) -> int:
    whole = abs(left) // abs(right)
    return whole if (left < 0) == (right < 0) else -whole


_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.FloorDiv: _divide,
    ast.Mod: lambda left, right: left - right * _divide(left, right),
}
