"""Words in a shell's text: quotes, expansions, redirections and here-documents.

A word may hold commands, in a substitution; so the class is completed by the parser of statements in `syntax`.
"""

from __future__ import annotations

import abc
import re
from typing import Self

from muster.strategies.launches.cursors import Cursor
from muster.strategies.launches.trees import Part, Redirect, Script, Word

__all__ = ["REDIRECT", "WordParser"]

REDIRECT = re.compile(r"(?:\d{1,9}|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
_PLAIN = re.compile(r"[^\s;&|()<>\"'`$\\]+")
_QUOTED = re.compile(r"[^\"\\$`]+")
_HERE = re.compile(r"[^\\$`]+")
_BRACED = re.compile(r"[^}\"'`$\\]+")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+|[@*#?$!-]")
_SUBSCRIPT = re.compile(r"\[([^\]\s$\"'`]{0,60})\]")
_OPERATOR = re.compile(r":?[-=?+]")
_PARENTHESIS = re.compile(r"[()]")
_ANSI = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "a": "\a", "b": "\b", "e": "\x1b"}


class WordParser(Cursor, abc.ABC):
    """Parses the words of one text."""

    def __init__(self, text: str, depth: int) -> None:
        super().__init__(text, depth)
        self._pending: list[tuple[Redirect, str, bool, bool]] = []

    @abc.abstractmethod
    def script(self, ends: frozenset[str]) -> Script:
        """Parse statements up to the end, a `)`, or one of these words; the end is not consumed."""

    def _inner(self, text: str, depth: int) -> Self:
        """Return a parser of a text inside this one."""
        return type(self)(text, depth)

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
        inner = self._inner("".join(inside), self._depth)
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

    # -- redirections, and what stands between words

    def _redirects(self) -> tuple[Redirect, ...]:
        """Parse the redirections behind a compound command."""
        found: list[Redirect] = []
        while True:
            self._blanks()
            redirect = REDIRECT.match(self.text, self.at)
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
                inner = self._inner(body, self._depth + 1)
                redirect.here = Word(tuple(inner.here()))

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

    def _bare_name(self) -> str:
        found = _PLAIN.match(self.text, self.at)
        if found is None:
            self._fail()
        self.at = found.end()
        return found[0]
