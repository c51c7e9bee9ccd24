"""Word expansion: what quotes, variables and substitutions make of a word before a program gets it.

In a text, what only the pod knows stands as a shell would write it: `$(NAME)` for a variable of the container,
`${NAME:-2}` for one with a default, `$(hostname -i)` for what a program says.
"""

from __future__ import annotations

import abc
import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from msgspec import Struct, field

from muster.strategies.shell.shell_builtins import PROGRAMS
from muster.strategies.shell.trees import Assignment, Part, Statement, Word
from muster.strategies.shell.word_parser import Unreadable

__all__ = ["MAX_TEXT", "Allowance", "Expander", "Loose", "Scope", "Value", "calculated"]

MAX_TEXT = 32 * 1024
"""Longest text, and longest word, in characters: variables that name each other may double it with each line."""
_IFS = " \t\n"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
_SUM = re.compile(r"[0-9+\-*/%() ]{1,80}")
_BRACKETS = re.compile(r"\$[({]|[(){}]|[ \t\n]+")
_WHOLE = re.compile(r"\$(?:\w+|[@*#?$!-])")
_SINGLE = re.compile(r"\$\((?:PET_[A-Z_]+|MASTER_ADDR|MASTER_PORT|JOB_COMPLETION_INDEX|HOSTNAME|RANDOM)\)")
_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w*:-[^${}]+\}")
_FINDERS = frozenset({"which", "command", "type", "readlink", "realpath"})

Value = str | list[str] | None
"""Of a variable: text, an array, or None where it was set to what cannot be read."""
_Piece = tuple[list[str], bool]
"""What a part of a word becomes: its fields, of which the first and the last grow together with what stands beside
them; and whether the text, which is its only field then, is still to be split."""


class Loose(str):
    """A word that stands for any number of words, because its value is known only in the pod."""

    __slots__ = ()


class Scope(Struct):
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
        known = {name: value for name, value in self.variables.items() if name in self.exported}
        return {name: "" if isinstance(value, list) else value for name, value in known.items()}

    def assigned(self) -> dict[str, str | None]:
        """Return the variables that are not exported."""
        return {name: _scalar(value) for name, value in self.variables.items() if name not in self.exported}


class Allowance:
    """How much work all texts of one command line may take together; what is taken is never given back.

    Each text has bounds of its own, but a text may run another one many times: eight lines that each run a shell with
    the next text are thousands of commands. A real script is parsed once and each of its words is read once, in one or
    two shells around it.

    Args:
        length: characters of the command line: many short ones may not take more than one long one.
    """

    def __init__(self, length: int) -> None:
        self._left = {what: min(most, base + factor * length // 8) for what, (most, base, factor, _) in _BOUNDS.items()}

    def pay(self, what: str, amount: int = 1) -> None:
        """Pay for `commands`, for characters of `text`, which are parsed or in a word, or for copied `variables`.

        Raises:
            Unreadable: nothing is left.
        """
        self._left[what] -= amount
        if self._left[what] < 0:
            raise Unreadable(f"the shell's {_BOUNDS[what][-1]} than Muster reads")


_BOUNDS = {
    "commands": (1_024, 64, 1, "text runs more commands"),
    "text": (256 * 1024, 4_096, 64, "texts are together longer"),
    "variables": (128 * 1024, 4_096, 64, "text gives more variables to its commands"),
}
"""The most for one command line, what any may take, eighths for each of its characters, and what is said behind it."""


class Expander(abc.ABC):
    """Expands the words of one text, with the variables of `scope`."""

    def __init__(self, scope: Scope, allowance: Allowance) -> None:
        self.scope, self.allowance = scope, allowance
        self.functions: dict[str, Statement] = {}

    @abc.abstractmethod
    def substitute(self, part: Part) -> None:
        """Run the commands of a substitution."""

    def expand(self, word: Word) -> list[str]:
        """Return the words that a word becomes: none, one or several."""
        pieces = self._pieces(word.parts)
        plain = "".join(part.written for part in word.parts if part.kind == "text" and not part.quoted)
        is_list = "{" in plain and "}" in plain and ("," in plain or ".." in plain)
        done = _words(pieces, self.scope.variables.get("IFS", _IFS))
        _bounded("".join(done), "word")
        return [Loose(each) for each in done] if is_list else done

    def one(self, word: Word) -> str:
        """Return the text of an assigned value or a here-document, which is not split."""
        return _bounded(_joined(self._pieces(word.parts)), "variable")

    def assign(self, setting: Assignment) -> None:
        """Set a variable."""
        variables, name = self.scope.variables, setting.name
        held: Value = variables.get(name, f"$({name})") if setting.added else ""
        if setting.indexed:
            variables[name] = None
        elif setting.items is not None:
            items = [word for item in setting.items for word in self.expand(item)]
            variables[name] = [*held, *items] if isinstance(held, list) else items
        elif held is None or isinstance(held, list):
            variables[name] = None
        else:
            variables[name] = _bounded(held + self.one(setting.value), "variable")

    def _pieces(self, parts: Sequence[Part], *, splits: bool = False) -> list[_Piece]:
        """Return what parts become; of a default, whose parts `splits`, also a text without quotes is split."""
        pieces: list[_Piece] = []
        for part in parts:
            split = splits and part.kind == "text" and not part.quoted
            found = [([part.written], True)] if split else self._part(part)
            if not splits:
                self.allowance.pay("text", len(_joined(found)))
            pieces.extend(found)
        return pieces

    def _part(self, part: Part) -> list[_Piece]:
        written, split = part.written, not part.quoted
        match part.kind:
            case "variable":
                return [self._variable(part)]
            case "default":
                return self._default(part)
            case "substitution":
                return [self._substitution(part)]
            case "other":
                return [_unseen(part)]
            case "arithmetic":
                result = calculated(part.name, self.scope.variables)
                written = written if result is None else str(result)
            case "process":
                self.substitute(part)
            case "reference" if part.name in self.functions or part.name in PROGRAMS["preparing"]:
                return [([f"$( {part.name} )"], split)]  # the shell runs it; any other is put in by Kubernetes
        return [([written], False)]

    def _variable(self, part: Part) -> _Piece:
        name, split, index, scope = part.name, not part.quoted, part.operator or "0", self.scope
        if name in ("@", "*"):
            is_one = part.quoted and name == "*"
            return [" ".join(scope.arguments)] if is_one else _each(scope.arguments, part), False
        value: Value = None
        if name == "#":
            value, split = str(len(scope.arguments)), False
        elif name.isdecimal():
            value = _at((scope.name, *scope.arguments), name)
        elif name in scope.variables:
            value = scope.variables[name]
            if isinstance(value, list) and index in ("@", "*"):
                return _each(value, part), False
            if isinstance(value, list):
                value = _at(value, index) if index.isdecimal() else None
            elif index != "0":
                value = None
        elif not part.operator and (name[:1].isalpha() or name[:1] == "_"):
            value = f"$({name})"
        return ([value], split) if isinstance(value, str) else _unseen(part)

    def _default(self, part: Part) -> list[_Piece]:
        """Read `${NAME:-word}` and its like; where only the pod can tell, `${NAME:-word}` stays as it is."""
        name, sign = part.name, part.operator[-1]
        if sign == "?":
            return [self._variable(Part("variable", part.written, part.quoted, name))]
        if name.isdecimal():
            value: str | None = self._variable(Part("variable", "", quoted=True, name=name))[0][0]
        elif name in self.scope.variables:
            value = _scalar(self.scope.variables[name])
        else:
            return [self._kept(part, name)]
        if value is None or ("$" in value and not _is_surely_something(value)):
            return [self._kept(part, value[2:-1] if value is not None and _REFERENCE.fullmatch(value) else "")]
        given = bool(value or not part.operator.startswith(":"))
        if (sign == "+") != given:
            return [([value], not part.quoted)] if sign != "+" else []
        found = self._pieces(part.parts, splits=True)
        if sign == "=":
            self.scope.variables[name] = _joined(found)
        return found

    def _kept(self, part: Part, name: str) -> _Piece:
        """Return `${NAME:-word}` for a variable of the container; without its name `$NAME`, which is unknown."""
        text: str | None = None
        if name:
            word = _joined(self._pieces(part.parts, splits=True))
            text = f"${{{name}{part.operator.replace('=', '-')}{word}}}"
            text = text if part.operator[-1] != "+" and _NAME.fullmatch(name) and _is_balanced(text) else None
        if part.operator[-1] == "=":
            self.scope.variables[part.name] = text
        return [f"${part.name}" if text is None else text], not part.quoted

    def _substitution(self, part: Part) -> _Piece:
        if not part.script:
            return [""], not part.quoted  # a comment: `# which batch`
        words = part.written.strip("`$() \t").split()
        if len(words) in (2, 3) and words[0] in _FINDERS and not words[-1].startswith(("-", "$")):
            return [words[-1]], False
        self.substitute(part)
        written = f"$( {part.written.strip('`')} )" if part.written.startswith("`") else part.written
        return [written if _is_balanced(written) else "$(...)"], not part.quoted


def calculated(expression: str, variables: Mapping[str, Value]) -> int | None:
    """Calculate a sum of whole numbers and of variables that hold them, as a shell does; None where it is not one."""

    def number(found: re.Match[str]) -> str:
        value = variables.get(found[0])
        return value if isinstance(value, str) and value.strip().isdecimal() and len(value) < 12 else "?"

    known = _NAME.sub(number, expression.translate(_BARE)).strip()
    if "**" in known or not _SUM.fullmatch(known):
        return None
    try:
        return _result(ast.parse(known, mode="eval").body)
    except (SyntaxError, ValueError, MemoryError, RecursionError, ZeroDivisionError):
        return None


_BARE = str.maketrans("", "", "${}")


def _result(tree: ast.expr) -> int:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return tree.value
    if isinstance(tree, ast.UnaryOp):
        return _result(tree.operand) * (-1 if isinstance(tree.op, ast.USub) else 1)
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
        return _OPERATIONS[type(tree.op)](_result(tree.left), _result(tree.right))
    raise ValueError("no sum")


def _divide(left: int, right: int) -> int:
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


_OPERATIONS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _divide,
    ast.Mod: lambda left, right: left - right * _divide(left, right),
}


def _scalar(value: Value) -> str | None:
    return (value[0] if value else "") if isinstance(value, list) else value


def _bounded(text: str, what: str) -> str:
    if len(text) > MAX_TEXT:
        raise Unreadable(f"a {what} grows longer than Muster reads")
    return text


def _at(words: Sequence[str], index: str) -> str:
    return words[int(index[:9])] if int(index[:9]) < len(words) else ""


def _each(words: Sequence[str], part: Part) -> list[str]:
    return list(words) if part.quoted else [piece for word in words for piece in _fields(word)]


def _unseen(part: Part) -> _Piece:
    return [part.written if _is_balanced(part.written) else "${...}"], not part.quoted


def _joined(pieces: Iterable[_Piece]) -> str:
    return "".join(" ".join(fields) for fields, _ in pieces)


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
    return len(fields := _fields(f"{text} x")) == 2 and fields[1] == "x"


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


def _words(pieces: Iterable[_Piece], separators: Value) -> list[str]:
    """Put pieces together to words: one with blanks at its ends, or with several fields, ends a word."""
    parts: list[str | None] = []  # None ends a word
    for fields, split in pieces:
        text = fields[0] if split else ""
        parts += [None] * text[:1].isspace()
        for index, each in enumerate(_split(text, separators) if split else fields):
            parts += [None] * bool(index)
            parts.append(Loose(each) if split and _is_unknown(each) else each)
        parts += [None] * text[-1:].isspace()
    words: list[list[str]] = [[]]
    for part in parts:
        words[-1].append(part) if part is not None else words.append([])
    return [(Loose if all(isinstance(part, Loose) for part in word) else str)("".join(word)) for word in words if word]


def _split(text: str, separators: Value) -> list[str]:
    if separators == _IFS or not text:
        return _fields(text)
    is_one = isinstance(separators, str) and not set(separators) & set(text)
    return [text if is_one else Loose(text)]  # another IFS: the text splits at other signs
