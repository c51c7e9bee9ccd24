"""Syntax: a shell's text as a tree, by the grammar of bash.

The parser is written here because a user's text must not be able to hurt the webhook. tree-sitter 0.26.1 with
tree-sitter-bash 0.25.1 was tried: texts of 8 kB took it up to 16 s, and with its reading callback some ended the
process. This one looks at each character once (once more for each level of backticks), nests up to a bound, and
refuses what it does not know.

It knows what scripts use: quotes of all kinds, expansions, arithmetic, here-documents, arrays, functions, `[[ ]]` and
compound commands. It does not know extended globs, `coproc` and `select`. Tests compare it with bash itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from muster.strategies.launches.cursors import Unreadable
from muster.strategies.launches.trees import (
    AndOr,
    Arithmetic,
    Assignment,
    Branches,
    Command,
    Function,
    Group,
    Loop,
    Pipeline,
    Redirect,
    Script,
    Statement,
    Word,
)
from muster.strategies.launches.word_syntax import REDIRECT, WordParser

__all__ = ["assigned", "parse"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\s]{0,60}\])?(\+?)=")
_CLOSING = frozenset({"then", "do", "done", "fi", "elif", "else", "esac", "}"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_BLANK_AND_FLAG = re.compile(r"\\[ \t]+(-[^\s;&|()<>]*)")
"""A flag in the line of the backslash, as where YAML has folded the lines."""
_NEXT_LINE = re.compile(
    r"(?:\\[ \t\r]+(?:#[^\n]*)?\n|[ \t]*\\\n[ \t]*(?:#[^\n]*)?\n)(?:[ \t]*#[^\n]*\n)*([ \t]*)([^\s#][^\s;&|()<>]*)"
)
"""A blank or a comment behind the backslash, or alone in the line that it continues; then the next line."""
_SETS = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)(?:\s{0,8}(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")


def parse(text: str) -> Script:
    """Parse a text.

    Raises:
        Unreadable: it is not a text of this grammar, or nests too deep.
    """
    parser = _Parser(text, 0)
    script = parser.script(frozenset())
    if parser.at < len(text):
        raise Unreadable("the shell's text is not one that Muster can parse")
    return script


class _Parser(WordParser):
    """One pass over one text; `at` is the place."""

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text, depth)
        self._names: list[str] = []

    # -- statements

    def script(self, ends: frozenset[str]) -> Script:
        """Parse statements up to the end, a `)`, or one of these words; the end is not consumed."""
        self._deeper()
        statements: list[AndOr] = []
        while True:
            self._separators()
            if self.at >= len(self.text) or self._peek() == ")" or self._looking(";;", ";&"):
                break
            if self._word_ahead() in (ends or _CLOSING):
                break
            statements.append(self._and_or())
        self._depth -= 1
        return Script(tuple(statements))

    def _and_or(self) -> AndOr:
        items = [("", self._pipeline())]
        while True:
            self._blanks()
            if not self._looking("&&", "||"):
                break
            sign = self.text[self.at : self.at + 2]
            self.at += 2
            self._lines()
            items.append((sign, self._pipeline()))
        background = self._peek() == "&"
        if background:
            self.at += 1
        elif self._peek() not in ("", "\n", ";", ")", "#"):
            self._fail()
        return AndOr(tuple(items), background)

    def _pipeline(self) -> Pipeline:
        start, negated = self.at, False
        while self._word_ahead() == "!":
            negated = not negated
            self.at += 1
            self._blanks()
        parts = [self._statement()]
        while True:
            self._blanks()
            if self._peek() != "|" or self._looking("||"):
                return Pipeline(tuple(parts), negated, self._written(start))
            self.at += 2 if self._looking("|&") else 1
            self._lines()
            parts.append(self._statement())

    def _statement(self) -> Statement:
        self._blanks()
        word = self._word_ahead()
        self._deeper()
        self._counted()
        made = self._compound(word)
        self._depth -= 1
        return made

    def _compound(self, word: str) -> Statement:
        if self._looking("(("):
            return Arithmetic(self._parentheses(2))
        if self._peek() == "(":
            self.at += 1
            body = self.script(frozenset())
            self._expect(")")
            return Group(body, self._redirects(), subshell=True)
        if word == "[[":
            return self._test()
        reads: Mapping[str, Callable[[], Statement]] = {
            "{": self._group,
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

    def _group(self) -> Group:
        body = self.script(frozenset({"}"}))
        self._expect("}")
        return Group(body, self._redirects())

    def _if(self) -> Branches:
        start = self.at
        first = self.script(frozenset({"then"}))
        tests, bodies, conditions, otherwise = [self._written(start)], list[Script](), set[int](), False
        self._expect("then")
        while True:
            bodies.append(self.script(frozenset({"elif", "else", "fi"})))
            word = self._word_ahead()
            self._expect(word if word in ("elif", "else", "fi") else "fi")
            if word == "fi":
                alone = not otherwise and not conditions  # the arms of several conditions may be all there are
                test = " ; ".join(tests)
                return Branches(first, tuple(bodies), self._redirects(), test, frozenset(conditions), alone)
            otherwise = word == "else"
            if word == "elif":
                start = self.at
                conditions.add(len(bodies))
                bodies.append(self.script(frozenset({"then"})))
                tests.append(self._written(start))
                self._expect("then")

    def _for(self) -> Loop:
        self._blanks()
        start, names = len(self._names), []
        words: list[Word] = []
        if self._looking("(("):
            names = assigned(self._parentheses(2))
        else:
            names = [self._bare_name()]
            self._lines()
            if self._word_ahead() == "in":
                self.at += 2
                words = self._words()
        self._separators()
        body = self._body()
        return Loop((body,), (*names, *self._names[start:]), tuple(words), self._redirects())

    def _while(self) -> Loop:
        start = len(self._names)
        condition = self.script(frozenset({"do"}))
        body = self._body()
        return Loop((condition, body), tuple(self._names[start:]), (), self._redirects())

    def _body(self) -> Script:
        if self._peek() == "{":
            self.at += 1
            return self._group().body
        self._expect("do")
        body = self.script(frozenset({"done"}))
        self._expect("done")
        return body

    def _case(self) -> Branches:
        self._blanks()
        start = self.at
        self._word()
        test = self._written(start)
        self._lines()
        self._expect("in")
        bodies: list[Script] = []
        while True:
            self._separators()
            if self._word_ahead() == "esac":
                self.at += 4
                return Branches(None, tuple(bodies), self._redirects(), test, open=len(bodies) < 2)
            if self._peek() == "(":
                self.at += 1
            while True:
                self._blanks()
                self._word()
                self._blanks()
                if self._peek() != "|":
                    break
                self.at += 1
            self._expect(")")
            bodies.append(self.script(frozenset({"esac"})))
            if self._looking(";;&"):
                self.at += 3
            elif self._looking(";;", ";&"):
                self.at += 2

    def _named(self) -> Function:
        self._blanks()
        name = self._bare_name()
        self._blanks()
        if self._looking("()"):
            self.at += 2
        return self._function(name)

    def _function(self, name: str) -> Function:
        self._lines()
        body = self._statement()
        if isinstance(body, (Command, Function)):
            self._fail()
        return Function(name, body)

    def _test(self) -> Arithmetic:
        """Skip a test: it starts nothing."""
        start = self.at
        self.at += 2
        while True:
            while self._peek() and self._peek() in " \t\n":
                self.at += 1
            if self.at >= len(self.text):
                self._fail()
            if self._word_ahead() == "]]":
                self.at += 2
                self._redirects()
                return Arithmetic(self.text[start : self.at], test=True)
            if self._peek() in "()<>&|;":
                self.at += 1
            else:
                self._word()

    # -- commands

    def _command(self) -> Statement:
        settings: list[Assignment] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        start, end, torn = self.at, self.at, None
        while True:
            self._blanks()
            begun, sign = self.at, self._peek()
            if sign == "(" and len(words) == 1 and not settings and not redirects:
                return self._defined(words[0])
            redirect = REDIRECT.match(self.text, self.at)
            if redirect is not None:
                redirects.append(self._redirect(redirect))
            elif sign in ("", "\n", ";", "&", "|", ")", "#"):
                break
            elif sign == "(":
                self._fail()
            else:
                found = self._setting(words)
                if found is not None:
                    settings.append(found)
                else:
                    words.append(self._word())
                    self._few(words)
                    torn, end = torn or self._torn(start, begun), self.at
        if not (settings or words or redirects):
            self._fail()
        self._names.extend(setting.name for setting in settings)
        if words and words[0].plain in ("read", "mapfile", "readarray", "getopts", "printf"):
            self._names.extend(text for word in words[1:] if (text := word.plain) and _NAME.fullmatch(text))
        return Command(tuple(settings), tuple(words), tuple(redirects), torn or self._torn(start, end))

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
        is_meant = lost is not None and (len(lost[1]) > self._indent(start) or lost[2].startswith("-"))
        if lost is None or not (is_meant or self.text[start] == "\\"):
            return None
        return self.text.count("\n", 0, lost.start(1)), lost[2]

    def _indent(self, place: int) -> int:
        line = self.text[self.text.rfind("\n", 0, place) + 1 : place + 1]
        return len(line) - len(line.lstrip(" \t"))

    def _defined(self, word: Word) -> Function:
        self.at += 1
        self._blanks()
        self._expect(")")
        return self._function(word.plain or "")

    def _setting(self, words: Sequence[Word]) -> Assignment | None:
        """Parse an assignment, where one may stand."""
        if words and words[0].plain not in _DECLARING:
            return None
        found = _ASSIGNMENT.match(self.text, self.at)
        if found is None:
            return None
        self.at = found.end()
        added, indexed = bool(found[3]), bool(found[2])
        if self._peek() != "(":
            ends = self._peek() in ("", " ", "\t", "\n", ";", "&", "|", ")", "<", ">")
            return Assignment(found[1], Word(()) if ends else self._word(), added, indexed)
        self.at += 1
        items: list[Word] = []
        while True:
            self._lines()
            if self._peek() == ")":
                self.at += 1
                return Assignment(found[1], Word(()), added, indexed, tuple(items))
            if self._peek() in ("", ";", "&", "|", "(", "<", ">"):
                self._fail()
            items.append(self._word())
            self._few(items)

    def _words(self) -> list[Word]:
        """Parse the words of `for x in ...`."""
        words: list[Word] = []
        while True:
            self._blanks()
            if self._peek() in ("", "\n", ";", "#"):
                return words
            words.append(self._word())


def assigned(text: str) -> list[str]:
    """Return the variables that an arithmetic expression sets."""
    return [found[1] for found in _SETS.finditer(text)]
