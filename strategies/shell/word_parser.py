"""Words in a shell's text: quotes, expansions, redirections and here-documents; and the bounds of what is read.

A word may hold commands, in a substitution; so the class is completed by the parser of statements in `grammar`.
"""

from __future__ import annotations

import abc
import re
from typing import NoReturn

from muster.strategies.shell.trees import Part, Redirect, Script, Word

__all__ = ["REDIRECT", "Unreadable", "WordParser"]

REDIRECT = re.compile(r"(?:\d{1,9}|\{[A-Za-z_][A-Za-z0-9_]*\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
_MAX_DEPTH = 80
_SHOWN = 240
_BLANKS = re.compile(r"(?:[ \t]|\\\n)+")
_COMMENT = re.compile(r"#[^\n]*")
_AHEAD = re.compile(r"([^\s;&|()<>]{0,12})(?![^ \t\r\n;&|()<>])")
_REFERENCE = re.compile(r"\$\([A-Za-z_][A-Za-z0-9_]*\)")
_PLAIN = re.compile(r"[^\s;&|()<>\"'`$\\]+")
_QUOTED = re.compile(r"[^\"\\$`]+")
_HERE = re.compile(r"[^\\$`]+")
_BRACED = re.compile(r"[^}\"'`$\\]+")
_SINGLE = re.compile(r"'[^']*'")
_BACKTICKS = re.compile(r"`([^`\\]*(?:\\.[^`\\]*)*)`", re.DOTALL)
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d|[@*#?$!-]")
_IN_BRACES = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|\d+|[@*?$-]|[#!](?=\})")
"""A parameter, which in `${#X}` and `${!X}` is none."""
_LINE = re.compile(r"[^\n]*\n?")
_SUBSCRIPT = re.compile(r"\[([^\]\s$\"'`]{0,60})\]")
_OPERATOR = re.compile(r":?[-=?+]")
_PARENTHESIS = re.compile(r"[()]")
_ANSI_QUOTE = re.compile(r"\$'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "\\": "\\", "'": "'", '"': '"', "r": "\r", "a": "\a", "b": "\b", "e": "\x1b"}


class Unreadable(Exception):  # noqa: N818  # no fault of ours
    """The text is not one that is read to its end; the message is a clause."""


class WordParser(abc.ABC):
    """Parses the words of one text; `at` is the place, and the text may stand inside of others."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text, self.at, self._depth = text, 0, depth
        self._pending: list[tuple[Redirect, str, bool, bool]] = []

    @abc.abstractmethod
    def script(self, *ends: str) -> Script:
        """Parse statements up to the end, a `)`, or one of these words; the end is not consumed."""

    def whole(self) -> Script:
        """Parse the whole text."""
        found = self.script()
        return found if self.at >= len(self.text) else self._fail()

    def _until(self, end: str) -> Script:
        """Parse statements up to a `)`, or a word, and step over it."""
        found = self.script(end)
        self._expect(end)
        return found

    def here(self) -> Word:
        """Parse the text of a here-document."""
        return Word(tuple(self._parts(_HERE, quoted=True, escapes="$`\\")))

    # -- the place

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _looking(self, *texts: str) -> bool:
        return self.text.startswith(texts, self.at)

    def _word_ahead(self) -> str:
        """Return the plain word at this place, "" where it is longer than any that matters."""
        found = _AHEAD.match(self.text, self.at)
        return found[1] if found is not None else ""

    def _written(self, start: int) -> str:
        return self.text[start : min(self.at, start + _SHOWN)].strip()

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Step over what a pattern matches here."""
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def _took(self, *texts: str) -> str:
        """Step over the first of these texts that stands here, and return it; "" for none."""
        found = next((text for text in texts if self._looking(text)), "")
        self.at += len(found)
        return found

    def _expect(self, text: str) -> None:
        if not self._took(text):
            self._fail()

    def _blanks(self) -> None:
        self._take(_BLANKS)

    def _separators(self, signs: str = "\n;") -> None:
        """Skip blanks, comments, ends of lines and single semicolons; here-documents begin behind a line."""
        while True:
            self._blanks()
            if self._took("\n"):
                self._heres()
            elif not self._take(_COMMENT) and (self._looking(";;", ";&") or ";" not in signs or not self._took(";")):
                return

    def _deeper(self) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise Unreadable("the shell's text nests deeper than Muster reads")

    def _fail(self) -> NoReturn:
        raise Unreadable("the shell's text is not one that Muster can parse")

    # -- words

    def _word(self) -> Word:
        start = self.at
        parts = self._parts(_PLAIN, quoted=False)
        if self.at == start:
            self._fail()
        return Word(tuple(parts))

    def _name(self) -> str:
        return (self._take(_PLAIN) or self._fail())[0]

    def _parts(
        self, plain: re.Pattern[str], *, quoted: bool, escapes: str = "", literal: str = "", end: str = ""
    ) -> list[Part]:
        """Parse a word, or what stands in quotes, braces or a here-document, up to what can be no part of it.

        Args:
            plain: what is only text.
            quoted: whether it is not split at its blanks.
            escapes: the signs before which a backslash is none; "" for all.
            literal: the sign that is text where it stands in quotes.
            end: the sign that ends it.
        """
        self._deeper()
        parts: list[Part] = []
        while (sign := self._peek()) and sign != end:
            run = self._take(plain)
            if run is not None:
                parts.append(Part("text", run[0], quoted))
            elif sign == "\\":
                following = self.text[self.at + 1 : self.at + 2]
                self.at = min(self.at + 2, len(self.text))
                if following != "\n":
                    kept = bool(following) and (not escapes or following in escapes)
                    parts.append(Part("text", following if kept else f"\\{following}", quoted=True))
            elif quoted and sign == literal:
                parts.append(Part("text", sign, quoted=True))
                self.at += 1
            elif sign in "\"'`$":
                self._special(parts, sign, quoted=quoted)
            elif self._looking("<(", ">("):
                parts.append(self._commands("process", quoted=False))
            else:
                break
        self._depth -= 1
        return parts

    def _special(self, parts: list[Part], sign: str, *, quoted: bool) -> None:
        """Parse a quote, a backtick or what begins with a dollar sign."""
        if sign == "'":
            parts.append(Part("text", (self._take(_SINGLE) or self._fail())[0][1:-1], quoted=True))
        elif self._took('"') or (not quoted and self._took('$"')):
            found = self._parts(_QUOTED, quoted=True, escapes='$`\\"', end='"')
            self._expect('"')
            if not found or any(part.name != "@" and part.operator != "@" for part in found):
                parts.append(Part("text", "", quoted=True))  # "" is a word, and "$@" without arguments is none
            parts.extend(found)
        else:
            parts.append(self._backticks(quoted=quoted) if sign == "`" else self._dollar(quoted=quoted))

    def _backticks(self, *, quoted: bool) -> Part:
        found = self._take(_BACKTICKS) or self._fail()
        self._deeper()
        inside = _ESCAPE.sub(lambda each: each[1] if each[1] in "`\\$" else each[0], found[1])
        script = type(self)(inside, self._depth).whole()
        self._depth -= 1
        return Part("substitution", found[0], quoted, script=script)

    def _commands(self, kind: str, *, quoted: bool) -> Part:
        """Parse `$(...)`, `<(...)` or `>(...)`."""
        start = self.at
        self.at += 2
        script = self._until(")")
        return Part(kind, self.text[start : self.at], quoted, script=script)

    def _dollar(self, *, quoted: bool) -> Part:
        reference = self._take(_REFERENCE)
        if reference is not None:
            return Part("reference", reference[0], quoted, reference[0][2:-1])
        if self._looking("$(") and not self._looking("$(("):
            return self._commands("substitution", quoted=quoted)
        if self._looking("${"):
            return self._braced(quoted=quoted)
        if self._looking("$'") and not quoted:
            found = self._take(_ANSI_QUOTE) or self._fail()
            is_known = {*_ESCAPE.findall(found[1])} <= _ESCAPED.keys()
            made = _ESCAPE.sub(lambda each: _ESCAPED[each[1]], found[1]) if is_known else found[0]
            return Part("text" if is_known else "other", made, quoted=True)
        start = self.at
        self.at += 1
        if self._looking("(("):
            text = self._parentheses()
            return Part("arithmetic", self.text[start : self.at], quoted, text)
        named = self._take(_PARAMETER)
        name = named[0] if named else ""
        return Part("variable" if name else "text", f"${name}", quoted, name)

    def _braced(self, *, quoted: bool) -> Part:
        """Parse `${...}`."""
        start = self.at
        self.at += 2
        found = self._take(_IN_BRACES)
        name = found[0] if found else ""
        index = self._take(_SUBSCRIPT) if name else None
        operator = self._take(_OPERATOR) if name and index is None else None
        kind = "default" if operator is not None else "variable" if name and self._peek() == "}" else "other"
        parts = self._parts(_BRACED, quoted=quoted, literal="'", end="}")
        self._expect("}")
        sign = operator[0] if operator else index[1] if index else ""
        return Part(kind, self.text[start : self.at], quoted, name, sign, tuple(parts))

    def _parentheses(self) -> str:
        """Skip `(( ... ))`, and return what is inside."""
        start, depth = self.at, 0
        while depth or self.at == start:
            sign = _PARENTHESIS.search(self.text, self.at)
            if sign is None:
                self._fail()
            depth += 1 if sign[0] == "(" else -1
            self.at = sign.end()
        if self.text[self.at - 2 : self.at] != "))":
            self._fail()
        return self.text[start + 2 : self.at - 2]

    # -- redirections

    def _redirects(self) -> tuple[Redirect, ...]:
        """Parse the redirections behind a compound command."""
        found: list[Redirect] = []
        self._blanks()
        while (redirect := self._redirect()) is not None:
            found.append(redirect)
            self._blanks()
        return tuple(found)

    def _redirect(self) -> Redirect | None:
        found = self._take(REDIRECT)
        if found is None:
            return None
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
                line = (self._take(_LINE) or self._fail())[0].removesuffix("\n")
                line = line.lstrip("\t") if tabs else line
                if line == delimiter:
                    break
                lines.append(f"{line}\n")
            body = "".join(lines)
            is_text = Word((Part("text", body, quoted=True),))
            redirect.here = is_text if literal else type(self)(body, self._depth + 1).here()
