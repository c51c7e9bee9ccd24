"""Trees: what a shell's text consists of, from a part of a word up to a script; `syntax` makes them."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = [
    "AndOr",
    "Arithmetic",
    "Assignment",
    "Branches",
    "Command",
    "Function",
    "Group",
    "Loop",
    "Part",
    "Pipeline",
    "Redirect",
    "Script",
    "Statement",
    "Word",
]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a word.

    Attributes:
        kind: text, variable, default (`${X:-word}`), array (`${X[@]}`), other (another `${...}`), reference (`$(NAME)`,
            as Kubernetes writes a variable), substitution, process or arithmetic.
        written: the part as it stands in the text; of kind text, what it stands for.
        quoted: whether it stands in quotes, or behind a backslash.
        name: name of the variable.
        operator: of a default: `:-`, `=` and the like; of a variable: its index.
        parts: the word of a default.
        script: commands of a substitution.
    """

    kind: str
    written: str
    quoted: bool = False
    name: str = ""
    operator: str = ""
    parts: tuple[Part, ...] = ()
    script: Script | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word: its parts."""

    parts: tuple[Part, ...]

    @property
    def plain(self) -> str | None:
        """The text of a word that holds nothing but text; else None."""
        if any(part.kind != "text" for part in self.parts):
            return None
        return "".join(part.written for part in self.parts)


@dataclass(frozen=True, slots=True)
class Assignment:
    """`NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(words)`; an array has `items`."""

    name: str
    value: Word
    added: bool = False
    indexed: bool = False
    items: tuple[Word, ...] | None = None


@dataclass(slots=True)
class Redirect:
    """A redirection; of a here-document, `here` is its text, and None where it could not be found."""

    operator: str
    target: Word
    here: Word | None = None


@dataclass(frozen=True, slots=True)
class Command:
    """A simple command; `settings` also holds the assignments among the arguments of `export` and the like.

    `torn` is the line of the text at whose end a blank follows the backslash, and the word that the author meant to be
    an argument of the command.
    """

    settings: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    torn: tuple[int, str] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """`{ ...; }`, or `( ... )` where it is a subshell."""

    body: Script
    redirects: tuple[Redirect, ...] = ()
    subshell: bool = False


@dataclass(frozen=True, slots=True)
class Branches:
    """`if` or `case`: what runs first, and bodies of which one or none runs.

    Attributes:
        first: the first condition of an `if`.
        bodies: the arms, and between them the other conditions.
        redirects: the redirections behind it.
        test: the text that chooses the arm, cut short.
        conditions: the places of the other conditions in `bodies`.
        open: whether no arm may run: an `if` without `else`, or a `case` of one pattern.
    """

    first: Script | None
    bodies: tuple[Script, ...]
    redirects: tuple[Redirect, ...] = ()
    test: str = ""
    conditions: frozenset[int] = frozenset()
    open: bool = True


@dataclass(frozen=True, slots=True)
class Loop:
    """`for`, `while` or `until`; `names` are the variables that are set in it."""

    bodies: tuple[Script, ...]
    names: tuple[str, ...]
    words: tuple[Word, ...] = ()
    redirects: tuple[Redirect, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function."""

    name: str
    body: Statement


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`(( ... ))`, or `[[ ... ]]` where it is a test."""

    text: str
    test: bool = False


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Commands with `|` between them; `written` is their text, cut short."""

    parts: tuple[Statement, ...]
    negated: bool = False
    written: str = ""


@dataclass(frozen=True, slots=True)
class AndOr:
    """Pipelines with `&&` and `||` between them; the first has no sign."""

    items: tuple[tuple[str, Pipeline], ...]
    background: bool = False


@dataclass(frozen=True, slots=True)
class Script:
    """Statements that run one after the other."""

    statements: tuple[AndOr, ...] = field(default_factory=tuple)


Statement = Command | Group | Branches | Loop | Function | Arithmetic
