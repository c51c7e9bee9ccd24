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
from typing import NoReturn

from strategies.launches.trees import (
    AndOr,
    Arithmetic,
    Assignment,
    Branches,
    Command,
    Function,
    Group,
    Loop,
    Part,
    Pipeline,
    Redirect,
    Script,
    Statement,
    Word,
)

__all__ = [
    "Unreadable",
    "assigned",
    "parse",
]

MAX_STATEMENTS = 512
MAX_WORDS = 2_048
_SHOWN = 240
_DEPTH = 80
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\[[^\]\s]{0,60}\])?(\+?)=")
_REDIRECT = re.compile(r"(?:\d{1,9}|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_PLAIN = re.compile(r"[^\s;&|()<>\"'`$\\]+")
_QUOTED = re.compile(r"[^\"\\$`]+")
_HERE = re.compile(r"[^\\$`]+")
_BRACED = re.compile(r"[^}\"'`$\\]+")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+|[@*#?$!-]")
_SUBSCRIPT = re.compile(r"\[([^\]\s$\"'`]{0,60})\]")
_OPERATOR = re.compile(r":?[-=?+]")
_WORD_END = re.compile(r"(?=[\s;&|()<>]|\Z)")
_PARENTHESIS = re.compile(r"[()]")
_CLOSING = frozenset({"then", "do", "done", "fi", "elif", "else", "esac", "}"})
_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})


class Unreadable(Exception):  # noqa: N818  # no fault of ours
    """The text is not one that is parsed; the message is a clause."""


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


class _Parser:
    """One pass over one text; `at` is the place."""

    def __init__(self, text: str, depth: int) -> None:
        self.text, self.at, self._depth = text, 0, depth
        self._pending: list[tuple[Redirect, str, bool, bool]] = []
        self._names: list[str] = []
        self._count = 0

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
        self._counted(MAX_STATEMENTS)
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
        while True:
            self._blanks()
            sign = self._peek()
            if sign == "(" and len(words) == 1 and not settings and not redirects:
                return self._defined(words[0])
            redirect = _REDIRECT.match(self.text, self.at)
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
        if not (settings or words or redirects):
            self._fail()
        self._names.extend(setting.name for setting in settings)
        if words and words[0].plain in ("read", "mapfile", "readarray", "getopts", "printf"):
            self._names.extend(text for word in words[1:] if (text := word.plain) and _NAME.fullmatch(text))
        return Command(tuple(settings), tuple(words), tuple(redirects))

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

    def _redirects(self) -> tuple[Redirect, ...]:
        """Parse the redirections behind a compound command."""
        found: list[Redirect] = []
        while True:
            self._blanks()
            redirect = _REDIRECT.match(self.text, self.at)
            if redirect is None:
                return tuple(found)
            found.append(self._redirect(redirect))

    def _redirect(self, found: re.Match[str]) -> Redirect:
        self.at = found.end()
        self._blanks()
        start = self.at
        made = Redirect(found[1], self._word())
        if found[1] in ("<<", "<<-"):
            written = self.text[start : self.at]
            delimiter = re.sub(r"\\(.)", r"\1", written.replace("'", "").replace('"', "").replace("\\\n", ""))
            literal = any(sign in written for sign in "'\"\\")
            self._pending.append((made, delimiter, literal, found[1] == "<<-"))
        elif found[1] == "<<<":
            made.here = made.target
        return made

    def _heres(self) -> None:
        """Read the here-documents that begin behind this line."""
        pending, self._pending = self._pending, []
        for redirect, delimiter, literal, tabs in pending:
            lines: list[str] = []
            while self.at < len(self.text):
                end = self.text.find("\n", self.at)
                line = self.text[self.at : len(self.text) if end < 0 else end]
                self.at = len(self.text) if end < 0 else end + 1
                line = line.lstrip("\t") if tabs else line
                if line == delimiter:
                    break
                lines.append(f"{line}\n")
            body = "".join(lines)
            if literal:
                redirect.here = Word((Part("text", body, quoted=True),))
            else:
                inner = _Parser(body, self._depth + 1)
                redirect.here = Word(tuple(inner.here()))

    # -- words

    def here(self) -> list[Part]:
        """Parse the text of a here-document."""
        return self._inside(_HERE, "")

    def _word(self) -> Word:
        self._deeper()
        parts: list[Part] = []
        start = self.at
        while self.at < len(self.text):
            sign = self.text[self.at]
            plain = _PLAIN.match(self.text, self.at)
            if plain is not None:
                parts.append(Part("text", plain[0]))
                self.at = plain.end()
            elif sign == "\\":
                self._backslash(parts)
            elif sign in "\"'`$":
                self._special(parts, quoted=False)
            elif sign in "<>" and self.text[self.at + 1 : self.at + 2] == "(":
                begun = self.at
                self.at += 2
                script = self.script(frozenset())
                self._expect(")")
                parts.append(Part("process", self.text[begun : self.at], script=script))
            else:
                break
        if self.at == start:
            self._fail()
        self._depth -= 1
        return Word(tuple(parts))

    def _backslash(self, parts: list[Part]) -> None:
        following = self.text[self.at + 1 : self.at + 2]
        self.at += 2 if following else 1
        if following != "\n":
            parts.append(Part("text", following or "\\", quoted=True))

    def _special(self, parts: list[Part], *, quoted: bool) -> None:
        """Parse a quote, a backtick or what begins with a dollar sign."""
        sign = self.text[self.at]
        if sign == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                self._fail()
            parts.append(Part("text", self.text[self.at + 1 : end], quoted=True))
            self.at = end + 1
        elif sign == '"':
            self.at += 1
            self._double(parts)
        elif sign == "`":
            parts.append(self._backticks(quoted=quoted))
        else:
            self._dollar(parts, quoted=quoted)

    def _double(self, parts: list[Part]) -> None:
        found = self._inside(_QUOTED, '"')
        self._expect('"')
        if not found or any(part.name != "@" and part.operator != "@" for part in found):
            parts.append(Part("text", "", quoted=True))  # "" is a word, and "$@" without arguments is none
        parts.extend(found)

    def _inside(self, plain: re.Pattern[str], end: str) -> list[Part]:
        """Parse what stands in double quotes, or in a here-document, up to its end."""
        self._deeper()
        parts: list[Part] = []
        while self.at < len(self.text) and not (end and self.text[self.at] == end):
            run = plain.match(self.text, self.at)
            if run is not None:
                parts.append(Part("text", run[0], quoted=True))
                self.at = run.end()
            elif self.text[self.at] == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                kept = following in ("$", "`", "\\") or (following == '"' and end == '"')
                if following != "\n":
                    parts.append(Part("text", following if kept else f"\\{following}", quoted=True))
                self.at += 2
            elif self.text[self.at] == '"':
                parts.append(Part("text", '"', quoted=True))
                self.at += 1
            else:
                self._special(parts, quoted=True)
        self._depth -= 1
        return parts

    def _backticks(self, *, quoted: bool) -> Part:
        start = self.at
        self.at += 1
        inside: list[str] = []
        while True:
            if self.at >= len(self.text):
                self._fail()
            sign = self.text[self.at]
            self.at += 1
            if sign == "`":
                break
            if sign == "\\" and self.text[self.at : self.at + 1] in ("`", "\\", "$"):
                sign = self.text[self.at]
                self.at += 1
            inside.append(sign)
        self._deeper()
        inner = _Parser("".join(inside), self._depth)
        script = inner.script(frozenset())
        if inner.at < len(inner.text):
            self._fail()
        self._depth -= 1
        return Part("substitution", self.text[start : self.at], quoted, script=script)

    def _dollar(self, parts: list[Part], *, quoted: bool) -> None:
        start, following = self.at, self.text[self.at + 1 : self.at + 2]
        reference = _REFERENCE.match(self.text, self.at)
        if reference is not None:
            self.at = reference.end()
            parts.append(Part("reference", reference[0], quoted, reference[0][2:-1]))
        elif self.text.startswith("$((", self.at):
            self.at += 1
            text = self._parentheses(2)
            parts.append(Part("arithmetic", self.text[start : self.at], quoted, text))
        elif following == "(":
            self.at += 2
            script = self.script(frozenset())
            self._expect(")")
            parts.append(Part("substitution", self.text[start : self.at], quoted, script=script))
        elif following == "{":
            parts.append(self._braced(quoted=quoted))
        elif following == "'" and not quoted:
            parts.append(self._ansi())
        elif following == '"' and not quoted:
            self.at += 2
            self._double(parts)
        else:
            found = _PARAMETER.match(self.text, self.at + 1)
            name = found[0] if found else ""
            name = name[:1] if name.isdigit() else name
            self.at += 1 + len(name)
            parts.append(Part("variable" if name else "text", f"${name}", quoted, name))

    def _ansi(self) -> Part:
        """Parse `$'...'`; one with an escape that is not known here is another expansion."""
        start = self.at
        self.at += 2
        made: list[str] = []
        known = True
        while True:
            sign = self.text[self.at : self.at + 1]
            if not sign:
                self._fail()
            self.at += 1
            if sign == "'":
                break
            if sign == "\\":
                escape = self.text[self.at : self.at + 1]
                self.at += 1
                known = known and escape in _ANSI
                sign = _ANSI.get(escape, "")
            made.append(sign)
        written = self.text[start : self.at]
        return Part("text", "".join(made), quoted=True) if known else Part("other", written, quoted=True)

    def _braced(self, *, quoted: bool) -> Part:
        """Parse `${...}`."""
        self._deeper()
        start = self.at
        self.at += 2
        found = _PARAMETER.match(self.text, self.at)
        name = found[0] if found else ""
        if name in ("#", "!") and self.text[self.at + 1 : self.at + 2] != "}":
            name = ""  # ${#X} and ${!X}
        self.at += len(name)
        index = _SUBSCRIPT.match(self.text, self.at) if name else None
        if index is not None:
            self.at = index.end()
        operator = _OPERATOR.match(self.text, self.at) if name and index is None else None
        if operator is not None:
            self.at = operator.end()
        kind = "default" if operator is not None else "variable" if name and self._peek() == "}" else "other"
        if index is not None and kind == "variable":
            kind = "array" if index[1] in ("@", "*") else "variable"
        parts = self._until_brace(quoted=quoted)
        self._expect("}")
        self._depth -= 1
        sign = operator[0] if operator else index[1] if index else ""
        return Part(kind, self.text[start : self.at], quoted, name, sign, tuple(parts))

    def _until_brace(self, *, quoted: bool) -> list[Part]:
        parts: list[Part] = []
        while self._peek() != "}":
            run = _BRACED.match(self.text, self.at)
            if run is not None:
                parts.append(Part("text", run[0], quoted))
                self.at = run.end()
            elif self._peek() == "":
                self._fail()
            elif self._peek() == "\\":
                self._backslash(parts)
            elif self._peek() == "'" and quoted:
                parts.append(Part("text", "'", quoted=True))
                self.at += 1
            else:
                self._special(parts, quoted=quoted)
        return parts

    def _parentheses(self, count: int) -> str:
        """Skip `(( ... ))`, and return what is inside."""
        start, depth = self.at, 0
        while True:
            sign = _PARENTHESIS.search(self.text, self.at)
            if sign is None:
                self._fail()
            depth += 1 if sign[0] == "(" else -1
            self.at = sign.end()
            if depth == 0:
                if self.text[self.at - count : self.at] != ")" * count:
                    self._fail()
                return self.text[start + count : self.at - count]

    # -- places

    def _written(self, start: int) -> str:
        return self.text[start : min(self.at, start + _SHOWN)].strip()

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _looking(self, *texts: str) -> bool:
        return self.text.startswith(texts, self.at)

    def _word_ahead(self) -> str:
        """Return the plain word at this place, "" where it is longer than any that matters."""
        end = _WORD_END.search(self.text, self.at, self.at + 12)
        return self.text[self.at : end.start()] if end is not None and self._ends(end.start()) else ""

    def _ends(self, place: int) -> bool:
        return place >= len(self.text) or self.text[place] in " \t\r\n;&|()<>"

    def _bare_name(self) -> str:
        found = _PLAIN.match(self.text, self.at)
        if found is None:
            self._fail()
        self.at = found.end()
        return found[0]

    def _expect(self, text: str) -> None:
        if not self._looking(text):
            self._fail()
        self.at += len(text)

    def _blanks(self) -> None:
        found = _BLANKS.match(self.text, self.at)
        if found is not None:
            self.at = found.end()

    def _lines(self) -> None:
        """Skip blanks, comments and ends of lines."""
        self._separators(signs="\n")

    def _separators(self, signs: str = "\n;") -> None:
        """Skip blanks, comments, ends of lines and single semicolons; here-documents begin behind a line."""
        while True:
            self._blanks()
            sign = self._peek()
            if sign == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif sign == "\n":
                self.at += 1
                self._heres()
            elif sign == ";" and signs == "\n;" and not self._looking(";;", ";&"):
                self.at += 1
            else:
                return

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _DEPTH:
            raise Unreadable("the shell's text nests deeper than Muster reads")

    def _few(self, words: Sequence[Word]) -> None:
        if len(words) > MAX_WORDS:
            raise Unreadable("a command has more words than Muster reads")

    def _counted(self, most: int) -> None:
        self._count += 1
        if self._count > most:
            raise Unreadable("the shell's text runs more commands than Muster reads")

    def _fail(self) -> NoReturn:
        raise Unreadable("the shell's text is not one that Muster can parse")


_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "a": "\a", "b": "\b", "e": "\x1b"}
_SETS = re.compile(r"(?<![A-Za-z0-9_])([A-Za-z_][A-Za-z0-9_]*)(?:\s{0,8}(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)")


def assigned(text: str) -> list[str]:
    """Return the variables that an arithmetic expression sets."""
    return [found[1] for found in _SETS.finditer(text)]
