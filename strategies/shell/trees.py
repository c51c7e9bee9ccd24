"""The tree of a shell's text, from a part of a word up to a script; `grammar` makes it."""

from __future__ import annotations

from msgspec import Struct

from muster.strategies.shell.shell_builtins import PROGRAMS

__all__ = [
    "AndOr",
    "Arithmetic",
    "Assignment",
    "Branches",
    "Function",
    "Group",
    "Loop",
    "Part",
    "Pipeline",
    "Redirect",
    "Script",
    "SimpleCommand",
    "Statement",
    "Word",
    "name_of",
    "plain_words",
]


class Part(Struct, frozen=True):
    """A part of a word.

    Attributes:
        kind: text, variable, default (`${X:-word}`), other (another `${...}`), reference (`$(NAME)`,
            as Kubernetes writes a variable), substitution, process or arithmetic.
        written: the part as it stands in the text; of kind text, what it stands for.
        quoted: whether it stands in quotes, or behind a backslash.
        name: name of the variable, or the arithmetic expression.
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
    script: Script = ()


class Word(Struct, frozen=True):
    """A word: its parts."""

    parts: tuple[Part, ...] = ()

    @property
    def plain(self) -> str | None:
        """The text of a word that holds nothing but text; else None."""
        texts = [part.written for part in self.parts if part.kind == "text"]
        return "".join(texts) if len(texts) == len(self.parts) else None


class Assignment(Struct, frozen=True):
    """`NAME=value`, `NAME+=value`, `NAME[i]=value` or `NAME=(words)`; an array has `items`."""

    name: str
    value: Word
    added: bool = False
    indexed: bool = False
    items: tuple[Word, ...] | None = None


class Redirect(Struct):
    """A redirection; of a here-document, `here` is its text, and None where it could not be found."""

    operator: str
    target: Word
    here: Word | None = None


class SimpleCommand(Struct, frozen=True):
    """A command of words; `settings` also holds the assignments among the arguments of `export` and the like.

    `torn` is the line of the text at whose end a blank follows the backslash, and the word that the author meant to be
    an argument of the command.
    """

    settings: tuple[Assignment, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    torn: tuple[int, str] | None = None


class Group(Struct, frozen=True):
    """`{ ...; }`, or `( ... )` where it is a subshell."""

    body: Script
    redirects: tuple[Redirect, ...] = ()
    subshell: bool = False


class Branches(Struct, frozen=True):
    """`if` or `case`: arms, each with its condition, of which one or none runs; `test` is what chooses, cut short."""

    arms: tuple[tuple[Script, Script], ...]
    redirects: tuple[Redirect, ...]
    test: str


class Loop(Struct, frozen=True):
    """`for`, `while` or `until`; `names` are the variables that are set in it."""

    bodies: tuple[Script, ...]
    names: tuple[str, ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Function(Struct, frozen=True):
    """The definition of a function."""

    name: str
    body: Statement


class Arithmetic(Struct, frozen=True):
    """`(( ... ))` with the variables that it sets, or `[[ ... ]]`."""

    names: tuple[str, ...] = ()


class Pipeline(Struct, frozen=True):
    """Commands with `|` between them; `written` is their text, cut short."""

    parts: tuple[Statement, ...]
    negated: bool
    written: str

    @property
    def is_test(self) -> bool:
        """Whether it is a question, whose answer decides what runs next."""
        return self.negated or isinstance(self.parts[-1], Arithmetic) or name_of(self.parts[-1]) in PROGRAMS["tests"]


class AndOr(Struct, frozen=True):
    """Pipelines with `&&` and `||` between them; the first has no sign."""

    items: tuple[tuple[str, Pipeline], ...]
    background: bool


Statement = SimpleCommand | Group | Branches | Loop | Function | Arithmetic
Script = tuple[AndOr, ...]


def plain_words(statement: Statement) -> list[str]:
    """Return the words of a simple command as far as they are plain, "" for each that is not; none of another."""
    return [word.plain or "" for word in statement.words] if isinstance(statement, SimpleCommand) else []


def name_of(statement: Statement) -> str:
    """Return the plain name of the program that a statement runs, else ""."""
    return statement.words[0].plain or "" if isinstance(statement, SimpleCommand) and statement.words else ""
