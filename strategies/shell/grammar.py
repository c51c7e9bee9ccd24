"""The grammar of a shell's text: statements and compound commands, as bash reads them.

The parser is written here because a user's text must not be able to hurt the webhook (docs/internals/decisions/0019).
It looks at each character once (once more for each level of backticks), nests up to a bound, and refuses what it does
not know: extended globs, `coproc` and `select`. Tests compare it with bash itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from muster.strategies.shell import trees
from muster.strategies.shell.shell_builtins import PROGRAMS
from muster.strategies.shell.word_parser import Unreadable, WordParser

__all__ = ["NAME", "assigned", "parse"]

_MAX_COMMANDS = 512
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\s]{0,60}\])?(\+?)=")
_CLOSING = frozenset({"then", "do", "done", "fi", "elif", "else", "esac", "}"})
_BLANK_AND_FLAG = re.compile(r"\\[ \t]+(-[^\s;&|()<>]*)")
"""A flag in the line of the backslash, as where YAML has folded the lines."""
_NEXT_LINE = re.compile(
    r"(?:\\[ \t\r]+(?:#[^\n]*)?\n|[ \t]*\\\n[ \t]*(?:#[^\n]*)?\n)(?:[ \t]*#[^\n]*\n)*([ \t]*)([^\s#][^\s;&|()<>]*)"
)
"""A blank or a comment behind the backslash, or alone in the line that it continues; then the next line."""
_SETS = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)(?:\s{0,8}(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")


def parse(text: str) -> trees.Script:
    """Parse a text.

    Raises:
        Unreadable: it is not a text of this grammar, nests too deep, or has too many commands.
    """
    return _Parser(text).whole()


def assigned(text: str) -> tuple[str, ...]:
    """Return the variables that an arithmetic expression sets."""
    return tuple(found[1] for found in _SETS.finditer(text))


class _Parser(WordParser):
    """One pass over one text."""

    def __init__(self, text: str, depth: int = 0) -> None:
        super().__init__(text, depth)
        self._names: list[str] = []
        self._count = 0

    # -- lists

    def script(self, *ends: str) -> trees.Script:
        """Parse statements up to the end, a `)`, or one of these words; the end is not consumed."""
        self._deeper()
        statements: list[trees.AndOr] = []
        while True:
            self._separators()
            if self._peek() in ("", ")") or self._looking(";;", ";&") or self._word_ahead() in (ends or _CLOSING):
                break
            statements.append(self._and_or())
        self._depth -= 1
        return tuple(statements)

    def _and_or(self) -> trees.AndOr:
        items = [("", self._pipeline())]
        while sign := self._took("&&", "||"):
            self._separators("\n")
            items.append((sign, self._pipeline()))
        background = self._took("&")
        if not background and self._peek() not in ("", "\n", ";", ")", "#"):
            self._fail()
        return trees.AndOr(tuple(items), bool(background))

    def _pipeline(self) -> trees.Pipeline:
        start, negated = self.at, False
        while self._word_ahead() == "!":
            negated = not negated
            self.at += 1
            self._blanks()
        parts = [self._statement()]
        while True:
            self._blanks()
            if self._looking("||") or not self._took("|&", "|"):
                return trees.Pipeline(tuple(parts), negated, self._written(start))
            self._separators("\n")
            parts.append(self._statement())

    def _statement(self) -> trees.Statement:
        self._blanks()
        word = self._word_ahead()
        self._deeper()
        self._count += 1
        if self._count > _MAX_COMMANDS:
            raise Unreadable("the shell's text runs more commands than Muster reads")
        made = self._compound(word)
        self._depth -= 1
        return made

    def _compound(self, word: str) -> trees.Statement:
        if self._looking("(("):
            return trees.Arithmetic(assigned(self._parentheses()))
        if self._took("("):
            return self._group(")")
        reads: Mapping[str, Callable[[], trees.Statement]] = {
            "{": lambda: self._group("}"),
            "[[": self._test,
            "if": self._if,
            "for": self._for,
            "while": self._while,
            "until": self._while,
            "case": self._case,
            "function": self._named,
        }
        if word in reads:
            self.at += len(word)
            return reads[word]()
        if word in _CLOSING or word in ("in", "coproc", "select"):
            self._fail()
        return self._command()

    # -- compound commands

    def _group(self, end: str) -> trees.Group:
        """Parse what stands behind the sign that begins a group."""
        return trees.Group(self._until(end), self._redirects(), subshell=end == ")")

    def _if(self) -> trees.Branches:
        arms: list[tuple[trees.Script, trees.Script]] = []
        tests: list[str] = []
        word = "if"
        while word != "fi":
            start, condition = self.at, trees.Script()
            if word != "else":
                condition = self._until("then")
                tests.append(self._written(start).removesuffix("then"))
            arms.append((condition, self.script("elif", "else", "fi")))
            word = self._word_ahead()
            word = word if word in ("elif", "else") else "fi"
            self._expect(word)
        return trees.Branches(tuple(arms), self._redirects(), " ; ".join(tests))

    def _for(self) -> trees.Loop:
        self._blanks()
        start, words = len(self._names), list[trees.Word]()
        if self._looking("(("):
            self._names += assigned(self._parentheses())
        else:
            self._names.append(self._name())
            self._separators("\n")
            if self._word_ahead() == "in":
                self.at += 2
                self._blanks()
                while self._peek() not in ("", "\n", ";", "#"):
                    words.append(self._word())
                    self._blanks()
        self._separators()
        self._expect("do")
        body = self._until("done")
        return trees.Loop((body,), tuple(self._names[start:]), tuple(words), self._redirects())

    def _while(self) -> trees.Loop:
        start = len(self._names)
        bodies = (self._until("do"), self._until("done"))
        return trees.Loop(bodies, tuple(self._names[start:]), (), self._redirects())

    def _case(self) -> trees.Branches:
        self._blanks()
        start = self.at
        self._word()
        test = self._written(start)
        self._separators("\n")
        self._expect("in")
        arms: list[tuple[trees.Script, trees.Script]] = []
        while True:
            self._separators()
            if self._word_ahead() == "esac":
                self.at += 4
                return trees.Branches(tuple(arms), self._redirects(), test)
            more = self._took("(") or "|"
            while more:
                self._blanks()
                self._word()
                self._blanks()
                more = self._took("|")
            self._expect(")")
            arms.append(((), self.script("esac")))
            self._took(";;&", ";;", ";&")

    def _named(self) -> trees.Function:
        self._blanks()
        name = self._name()
        self._blanks()
        self._took("()")
        return self._function(name)

    def _function(self, name: str) -> trees.Function:
        self._separators("\n")
        body = self._statement()
        if isinstance(body, (trees.SimpleCommand, trees.Function)):
            self._fail()
        return trees.Function(name, body)

    def _test(self) -> trees.Arithmetic:
        """Skip a test: it starts nothing."""
        while self._word_ahead() != "]]":
            if not self._took(*" \t\n()<>&|;"):
                self._word()
        self.at += 2
        self._redirects()
        return trees.Arithmetic()

    # -- simple commands

    def _command(self) -> trees.Statement:
        settings: list[trees.Assignment] = []
        words: list[trees.Word] = []
        redirects: list[trees.Redirect] = []
        start, end, torn = self.at, self.at, None
        while True:
            self._blanks()
            begun, sign = self.at, self._peek()
            if sign == "(" and len(words) == 1 and not settings and not redirects:
                self.at += 1
                self._blanks()
                self._expect(")")
                return self._function(words[0].plain or "")
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
            elif sign in ("", "\n", ";", "&", "|", ")", "#"):
                break
            elif sign == "(":
                self._fail()
            elif (found := self._setting(words)) is not None:
                settings.append(found)
            else:
                words.append(self._word())
                torn, end = torn or self._torn(start, begun), self.at
        if not (settings or words or redirects):
            self._fail()
        made = trees.SimpleCommand(tuple(settings), tuple(words), tuple(redirects), torn or self._torn(start, end))
        self._names.extend(setting.name for setting in settings)
        if trees.name_of(made) in PROGRAMS["reading"] | {"printf"}:
            self._names.extend(text for word in words[1:] if (text := word.plain) and NAME.fullmatch(text))
        return made

    def _torn(self, start: int, begun: int) -> tuple[int, str] | None:
        """Return the line that a backslash does not continue, and the word behind it that should be an argument.

        Args:
            start: where the command begins.
            begun: where its last word begins, and ends here; or where the command ends.
        """
        if "\\" not in self.text[begun : self.at]:
            return None
        flag = _BLANK_AND_FLAG.match(self.text, begun)
        if flag is not None:
            return self.text.count("\n", 0, begun) + 1, flag[1]
        places = (begun, max(begun, self.at - 2))
        lost = next((found for place in places if (found := _NEXT_LINE.match(self.text, place))), None)
        if lost is None:
            return None
        line = self.text[self.text.rfind("\n", 0, start) + 1 : start + 1]
        indent = len(line) - len(line.lstrip(" \t"))
        if len(lost[1]) > indent or lost[2].startswith("-") or self.text[start] == "\\":
            return self.text.count("\n", 0, lost.start(1)), lost[2]
        return None

    def _setting(self, words: Sequence[trees.Word]) -> trees.Assignment | None:
        """Parse an assignment, where one may stand."""
        found = self._take(_ASSIGNMENT) if not words or words[0].plain in PROGRAMS["declaring"] else None
        if found is None:
            return None
        name, added, indexed = found[1], bool(found[3]), bool(found[2])
        if not self._took("("):
            ends = self._peek() in ("", " ", "\t", "\n", ";", "&", "|", ")", "<", ">")
            return trees.Assignment(name, trees.Word() if ends else self._word(), added, indexed)
        items: list[trees.Word] = []
        while True:
            self._separators("\n")
            if self._took(")"):
                return trees.Assignment(name, trees.Word(), added, indexed, tuple(items))
            if self._peek() in ("", ";", "&", "|", "(", "<", ">"):
                self._fail()
            items.append(self._word())
