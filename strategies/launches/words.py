"""Words of a shell: what quotes, variables and substitutions make of them before a program gets them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from muster.strategies.launches.allowances import Allowance
from muster.strategies.launches.cursors import Unreadable
from muster.strategies.launches.programs import is_preparation
from muster.strategies.launches.trees import Part, Word

__all__ = ["Loose", "Scope", "Value", "Words"]

MAX_TEXT = 32 * 1024
"""Longest text of one word, in characters: variables that name each other may double it with each line."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
_SUM = re.compile(r"[0-9+\-*/%() ]{1,80}")
_BRACKETS = re.compile(r"\$[({]|[(){}]|[ \t\n]+")
_WHOLE = re.compile(r"\$(?:\w+|[@*#?$!-])")
_SINGLE = re.compile(r"\$\((?:PET_[A-Z_]+|MASTER_ADDR|MASTER_PORT|JOB_COMPLETION_INDEX|HOSTNAME|RANDOM)\)")
_FINDERS = frozenset({"which", "command", "type", "readlink", "realpath"})


class Loose(str):
    """A word that stands for any number of words, because its value is known only in the pod."""

    __slots__ = ()


Value = str | list[str] | None
"""Of a variable: text, an array, or None where it was set to what cannot be read.

In a text, what only the pod knows stands as a shell would write it: `$(NAME)` for a variable of the container,
`${NAME:-2}` for one with a default, `$(hostname -i)` for what a program says.
"""


@dataclass(slots=True)
class Scope:
    """Variables of one shell.

    Attributes:
        variables: those that the text has set; the others come from the container's env.
        exported: names of those that programs get.
        name: `$0`.
        arguments: `$1` and the following.
        options: options of `set` that change how it ends: errexit, pipefail.
    """

    variables: dict[str, Value] = field(default_factory=dict)
    exported: set[str] = field(default_factory=set)
    name: str = "bash"
    arguments: list[str] = field(default_factory=list)
    options: frozenset[str] = frozenset()

    def inner(self) -> Scope:
        """Return the scope of a subshell."""
        return Scope(dict(self.variables), set(self.exported), self.name, list(self.arguments), self.options)

    def env(self) -> dict[str, str | None]:
        """Return the exported variables; what only the pod knows is text with a `$`, or None.

        An array is exported by its mark alone: no program gets it, and none gets the container's value of its name.
        """
        known = {name: self.variables[name] for name in self.exported if name in self.variables}
        return {name: "" if isinstance(value, list) else value for name, value in known.items()}

    def assigned(self) -> dict[str, str | None]:
        """Return the variables that are not exported."""
        return {name: _scalar(value) for name, value in self.variables.items() if name not in self.exported}


def _scalar(value: Value) -> str | None:
    return (value[0] if value else "") if isinstance(value, list) else value


@dataclass(slots=True)
class _Piece:
    """A part of a word: its text, and whether it is split at blanks; `fields` are already split."""

    text: str
    split: bool = False
    fields: list[str] | None = None


class Words:
    """Expands the words of one text.

    Args:
        scope: the variables.
        run: called with the commands of each substitution, which run too.
        allowance: what is left for the texts of all words.
        functions: names of the functions that the text has defined.
    """

    def __init__(
        self, scope: Scope, run: Callable[[Part], None], allowance: Allowance, functions: Collection[str] = ()
    ) -> None:
        self._scope, self._run, self._allowance, self._functions = scope, run, allowance, functions

    def expand(self, word: Word) -> list[str]:
        """Return the words that a word becomes: none, one or several."""
        pieces = self._all(word.parts)
        plain = "".join(part.written for part in word.parts if part.kind == "text" and not part.quoted)
        loose = "{" in plain and "}" in plain and ("," in plain or ".." in plain)
        joiner = _Joiner(self._scope.variables.get("IFS", _IFS))
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
            found = self._piece(part)
            self._allowance.text(sum(map(_length, found)))
            pieces.extend(found)
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
            "reference": self._reference,
            "other": _unseen,
        }
        return [reads[part.kind](part)]

    def _reference(self, part: Part) -> _Piece:
        """Read `$(NAME)`: a variable, which Kubernetes puts in, or a program or a function, which the shell runs."""
        if part.name in self._functions or is_preparation((part.name,)):
            return _Piece(f"$( {part.name} )", split=not part.quoted)
        return _Piece(part.written)

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
        return _Piece(f"$({name})", split=not part.quoted)

    def _argument(self, part: Part) -> _Piece:
        arguments, name = self._scope.arguments, part.name
        if name == "#":
            return _Piece(str(len(arguments)))
        if name in ("@", "*"):
            whole = part.quoted and name == "*"
            return _Piece(" ".join(arguments)) if whole else _Piece("", fields=_each(arguments, part))
        index = int(name[:9])
        every = (self._scope.name, *arguments)
        return _Piece(every[index] if index < len(every) else "", split=not part.quoted)

    def _set(self, part: Part, value: Value) -> _Piece:
        if isinstance(value, list):
            index = part.operator or "0"
            if not index.isdecimal():
                return _unseen(part)
            value = value[int(index[:6])] if int(index[:6]) < len(value) else ""
        elif part.operator not in ("", "0"):
            return _unseen(part)
        return _unseen(part) if value is None else _Piece(value, split=not part.quoted)

    def _default(self, part: Part) -> list[_Piece]:
        """Read `${NAME:-word}` and its like; where only the pod can tell, `${NAME:-word}` stays as it is."""
        name, sign = part.name, part.operator[-1]
        if sign == "?":
            return [self._variable(Part("variable", part.written, part.quoted, name))]
        if not self._is_set(name):
            return [self._kept(part, name)]
        value = self._held(name)
        if value is None:
            return [self._hidden(part)]
        if "$" in value and not _is_surely_something(value):
            reference = _REFERENCE.fullmatch(value)
            return [self._kept(part, value[2:-1]) if reference else self._hidden(part)]
        given = bool(value or not part.operator.startswith(":"))
        if (sign == "+") == given:
            found = [piece for each in part.parts for piece in self._inner(each)]
            if sign == "=":
                self._scope.variables[name] = "".join(_joined(each) for each in found)
            return found
        return [_Piece(value, split=not part.quoted)] if sign != "+" else []

    def _is_set(self, name: str) -> bool:
        return name in self._scope.variables or name.isdecimal()

    def _held(self, name: str) -> str | None:
        if name.isdecimal():
            return self._argument(Part("variable", "", quoted=True, name=name)).text
        return _scalar(self._scope.variables[name])

    def _kept(self, part: Part, name: str) -> _Piece:
        """Return `${NAME:-word}` for a variable of the container."""
        sign = part.operator[-1]
        word = "".join(_joined(piece) for each in part.parts for piece in self._inner(each))
        text = f"${{{name}{part.operator.replace('=', '-')}{word}}}"
        if sign == "+" or not _NAME.fullmatch(name) or not _is_balanced(text):
            return self._hidden(part)
        if sign == "=":
            self._scope.variables[part.name] = text
        return _Piece(text, split=not part.quoted)

    def _hidden(self, part: Part) -> _Piece:
        """Return what stands for a value that nothing outside the text can tell."""
        if part.operator.endswith("="):
            self._scope.variables[part.name] = None
        return _Piece(f"${part.name}", split=not part.quoted)

    def _inner(self, part: Part) -> list[_Piece]:
        """Read a part of a default, which is split at its blanks where it has no quotes."""
        return [_Piece(part.written, split=not part.quoted)] if part.kind == "text" else self._piece(part)

    def _substitution(self, part: Part) -> _Piece:
        if part.script is not None and not part.script.statements:
            return _Piece("", split=not part.quoted)  # a comment: `# which batch`
        words = part.written.strip("`$() \t").split()
        if len(words) in (2, 3) and words[0] in _FINDERS and not words[-1].startswith(("-", "$")):
            return _Piece(words[-1])
        self._run(part)
        written = f"$( {part.written.strip('`')} )" if part.written.startswith("`") else part.written
        return _Piece(written if _is_balanced(written) else "$(...)", split=not part.quoted)

    def _arithmetic(self, part: Part) -> _Piece:
        inside = part.name
        known = _NAME.sub(self._number, inside[:200].replace("$", "").replace("{", "").replace("}", ""))
        if len(inside) <= 200 and "**" not in known and _SUM.fullmatch(known):
            result = _calculate(known.strip().replace("/", "//"))
            if result is not None:
                return _Piece(str(result))
        return _Piece(part.written)

    def _number(self, found: re.Match[str]) -> str:
        value = self._scope.variables.get(found[0])
        return value if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12 else "?"


def _each(words: Sequence[str], part: Part) -> list[str]:
    return list(words) if part.quoted else [piece for word in words for piece in _fields(word)]


def _unseen(part: Part) -> _Piece:
    return _Piece(part.written if _is_balanced(part.written) else "${...}", split=not part.quoted)


def _length(piece: _Piece) -> int:
    return len(piece.text) if piece.fields is None else len(piece.fields) + sum(map(len, piece.fields))


def _joined(piece: _Piece) -> str:
    return piece.text if piece.fields is None else " ".join(piece.fields)


_IFS = " \t\n"


def _fields(text: str) -> list[str]:
    """Split a text at its blanks, but for those inside `$(...)` and `${...}`."""
    if "$" not in text:
        return text.split()
    found: list[str] = []
    depth = start = 0
    for sign in _BRACKETS.finditer(text):
        if sign[0][0] in _IFS:
            if not depth:
                found.append(text[start : sign.start()])
                start = sign.end()
        elif sign[0][0] == "$" or (depth and sign[0] in "({"):
            depth += 1
        elif depth:
            depth -= 1
    return [each for each in (*found, text[start:]) if each]


def _is_balanced(text: str) -> bool:
    """Whether `_fields` finds the end of what begins with `$`."""
    return _fields(f"{text} x")[-1:] == ["x"] and len(_fields(f"{text} x")) == 2


def _is_unknown(field: str) -> bool:
    """Whether a word is nothing but parts that only the pod knows, and may be none or several words there."""
    if _WHOLE.fullmatch(field):
        return True
    left, depth = _SINGLE.sub("x", field), 0
    for sign in _BRACKETS.finditer(left):
        if not depth and not sign[0].startswith("$"):
            return False
        depth += 1 if sign[0] in ("$(", "${", "(", "{") else -1 if sign[0] in ")}" else 0
        if not depth and left[sign.end() : sign.end() + 1] not in ("", "$"):
            return False
    return not depth and left.startswith(("$(", "${"))


def _is_surely_something(text: str) -> bool:
    """Whether a text with a `$` cannot be empty: known text stands in it, or a default that is."""
    return not all(_is_unknown(field) and not _DEFAULTED.fullmatch(field) for field in _fields(text))


_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w*:-[^${}]+\}")


class _Joiner:
    """Puts pieces together to words.

    Args:
        separators: the value of IFS.
    """

    def __init__(self, separators: Value) -> None:
        self._separators = separators
        self._done: list[str] = []
        self._open: list[str] | None = None
        self._loose = True

    def add(self, piece: _Piece) -> None:
        """Add a piece to the word that is open; one with blanks, or several fields, ends it."""
        splits = piece.fields is None and piece.split
        parts = self._split(piece) if piece.fields is None else piece.fields
        if splits and piece.text[:1].isspace():
            self._close()
        for index, part in enumerate(parts):
            if index:
                self._close()
            self._open = self._open or []
            self._open.append(part)
            self._loose = self._loose and (isinstance(part, Loose) or (splits and _is_unknown(part)))
        if splits and piece.text[-1:].isspace():
            self._close()

    def end(self) -> list[str]:
        """Return the words."""
        self._close()
        return self._done

    def _split(self, piece: _Piece) -> list[str]:
        if not piece.split:
            return [piece.text]
        if self._separators == _IFS:
            return _fields(piece.text)
        if isinstance(self._separators, str) and not set(self._separators) & set(piece.text):
            return [piece.text] if piece.text else []
        return [Loose(piece.text)] if piece.text else []  # another IFS: the text splits at other signs

    def _close(self) -> None:
        if self._open is not None:
            text = "".join(self._open)
            self._done.append(Loose(text) if self._loose else text)
        self._open, self._loose = None, True


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
