"""Finds secrets inside one string: known token formats, URLs, assignments, flags, configuration text.

A secret may be part of a shell line, a clone URL, a header, or an error message that quotes its input. Each rule
replaces the secret part of a text by the mark and reports it, so that the caller can look for the same secret
elsewhere. The time of all patterns is linear in the length of the text, because the text comes from users.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias, TypeVar

from muster.webhook.audit.redaction import commands, forms, lines, secret_names

__all__ = ["FORM_HINTS", "HINTS", "MARK", "Judge", "is_harmless", "is_telling", "names_only", "scrub"]

MARK = "<redacted>"
"""The mark that replaces a secret in the log."""

FORM_HINTS = forms.HINTS
"""Lower-case pieces, one of which is in every text with a secret that is known by its form."""
HINTS = (*secret_names.HINTS, *commands.HINTS, *forms.HINTS)
"""Lower-case pieces, one of which is in every text in which `scrub` replaces something."""

Judge: TypeAlias = Callable[[str], bool]

# One shell word: quoted parts, escapes and plain characters; an unclosed quote runs to the end of the text.
_WORD = r"""(?:"(?:[^"\\]|\\[\s\S])*"|'[^']*'|\\[\s\S]|[^\s"'\\;&|]|["'\\][\s\S]*)+"""
# The same where it is a value: what a command prints, `$(cat key)`, is one word.
_VALUE = re.compile(
    r"""(?:"(?:[^"\\]|\\[\s\S])*"|'[^']*'|[$<]\([^)]*(?:\)|\Z)|`[^`]*(?:`|\Z)|\\[\s\S]|[^\s"'\\;&|]|["'\\][\s\S]*)+"""
)
_NAME = r"(?<![\w.-])-{0,2}[A-Za-z_.][\w.-]*"
_GAP = r"(?:\s|\\\r?\n)+"

# Each pattern ends where the value begins. Only where the name is secret, the value is read: another value may hold
# further names, and each character is read once for each pattern.
# `NAME=value`, `name := value`, `name => value`; when the whole assignment is quoted, up to the closing quote. A value
# may begin with `=`; `name == value` compares, and `google-auth==2.29.0` is a version.
_COMPARED = r"={1,2}(?:\s|\Z)|=\d{1,9}(?:\.(?:\d{1,9}|\*)){1,6}[\w.+]{0,20}(?:[\s\"',;)\]]|\Z)"
_ASSIGNMENT = re.compile(
    rf"(?P<quote>[\"'])?(?P<name>{_NAME})(?:[+:?]?=(?!{_COMPARED})|[ \t]{{1,8}}[+:?]?=>?[ \t]{{0,8}}(?!=))", re.ASCII
)
# `'token': 'value'`, `environ["TOKEN"] = "value"`, `["--token", "value"]`: how programs print and set their variables.
_ITEM = re.compile(
    rf"[\"'](?P<name>{_NAME})\\*[\"']\]?(?:\s{{0,64}}(?:[:=]|=>)\s{{0,64}}\\*|\s{{0,64}},\s{{0,64}}\\*(?=[\"']))",
    re.ASCII,
)
_FLAG = re.compile(rf"(?P<name>(?<![\w.-])--?[A-Za-z][\w.-]*){_GAP}(?!--|<<)", re.ASCII)
_HEADER = re.compile(
    r"(?im)(?P<name>\b(?:(?:proxy-)?authorization|(?:private|job|deploy)-token|(?:set-)?cookie|(?:x-)?api-key|x-[\w-]{1,60}))"
    r"[\"']?[ \t]{0,8}[:=][ \t]{0,8}[\"']?"
)
# `{token: value, x: 1}`: a mapping of YAML on one line.
_FLOW = re.compile(r"[{,][ \t]{0,64}(?P<name>[\w.-]+):[ \t]{1,64}", re.ASCII)
# `api_key:value`; a server `auth:8080` and an image `x/token:1` are none, nor is a namespace `team-secret` in the name
# of a ServiceAccount, which the API server tells with each refusal.
_PAIR = re.compile(
    r"(?<![\w./-])(?<!system:serviceaccount:)(?P<name>[A-Za-z][A-Za-z0-9]*[_-][\w-]*):(?=[^\s:/])", re.ASCII
)
_YAML_ENTRY = re.compile(r"\bname:[ \t]*(?P<name>[\w.\"'-]+)[ \t]*\r?\n[ \t]*value:[ \t]*", re.ASCII)
# `${TOKEN:-value}`: what a variable is when it is not set.
_DEFAULT = re.compile(r"\$\{(?P<name>[A-Za-z_]\w*):?[-=+]", re.ASCII)
_ELEMENT = re.compile(r"<(?P<name>[A-Za-z][\w.:-]*)>", re.ASCII)
_NETRC = re.compile(r"\blogin[ \t]+\S+\s+(?P<name>password)[ \t]+", re.ASCII)

_QUOTED_VALUES = {
    '"': re.compile(r"(?:[^\"\\]|\\[\s\S])+"),
    "'": re.compile(r"[^']+"),
}
_REST = re.compile(r"[^\r\n\"']+")
_FLOWING = re.compile(rf"[^\s,{{}}\"'\[][^,}}\r\n]*|{_VALUE.pattern}")

# Each with a piece of lower-case text that every match contains, which is cheaper to look for; the name before the
# value; the value.
_NAMED = (
    ("-", _HEADER, _REST),
    ("authorization", _HEADER, _REST),
    ("cookie", _HEADER, _REST),
    ("name:", _YAML_ENTRY, re.compile(r"\S.*")),
    ("{", _FLOW, _FLOWING),
    ('"', _ITEM, _VALUE),
    ("'", _ITEM, _VALUE),
    ("=", _ASSIGNMENT, _VALUE),
    ("-", _FLAG, _VALUE),
    ("${", _DEFAULT, re.compile(r"[^}\r\n]+")),
    ("</", _ELEMENT, re.compile(r"[^<]+(?=</)")),
    ("password", _NETRC, re.compile(r"[^\s\"']+")),
    (":", _PAIR, _VALUE),
)
_QUOTED = re.compile(r"'(?P<one>[^']*)'|\"(?P<two>(?:[^\"\\]|\\[\s\S])*)\"|(?P<three>\\[\s\S])")
_ESCAPED = re.compile(r"\\([\s\S])")
_PIECE = re.compile(rf"(?P<word>{_WORD})|(?P<end>[;&|\n]+)")
_DEEPEST = 3  # commands in quotes in commands

_SEPARATORS = frozenset("=:<,` \t\r\n\f\v")
_LONGEST_ENCODED = 65536
# Texts of any job that hold no hint, and pieces of JSON that hold such texts alone, by the hints; at most 3 MB for each
# of the two tuples of hints. A field path of a JobSet and a reason are up to 250 characters long.
_MOST_QUIET, _LONGEST_QUIET = 2048, 256
_BETWEEN = b"},{"
_BESIDE = re.compile(r"@|://|\.\.\.|…")
_BESIDE_RAW = re.compile(_BESIDE.pattern.encode())
_Quiet = TypeVar("_Quiet", str, bytes)
_quiet: dict[tuple[str, ...], tuple[set[str], set[bytes]]] = {}
# Names that say "secret" but whose value only says which one.
_REFERENCES = frozenset(
    {"automountServiceAccountToken", "imagePullSecrets", "serviceAccountToken", "secretKeyRef", "secretRef"}
)
_REFERENCE_ENDS = ("Ref", "Refs", "ecretName", "MountPath")
_SWITCHES = frozenset({"", "true", "false", "none", "null"})
_REFERENCE = re.compile(r"[\"']?\$(?:\([A-Za-z_]\w*\)|\{[A-Za-z_]\w*\}|(?P<bare>[A-Z_][A-Z0-9_]*))[\"']?", re.ASCII)


def scrub(text: str, judge: Judge = secret_names.is_secret, found: set[str] | None = None) -> str:
    """Replace each secret in `text` by the mark; `judge` decides about names, `found` collects what was replaced."""
    found = set() if found is None else found
    if _SEPARATORS.isdisjoint(text):
        if len(text) < forms.SHORTEST:
            return text
        return _unformatted(text, text.lower(), found)
    whole = _whole_assignment(text, judge, found)
    if whole is not None:
        return whole
    low = text.lower()
    if "@" in low or ("://" in low and ("…" in low or "..." in low)):
        text = forms.userinfo(text, lambda value: _mark(value, found, ":"))
    text = forms.calls(text, low, lambda value: _mark(value, found, ","))
    named = judge is not secret_names.is_secret or any(hint in low for hint in secret_names.HINTS)
    if named:
        text = _named(text, low, judge, found)
    if named or any(hint in low for hint in commands.HINTS):
        text = _commanded(text, judge, found)
    return _unformatted(text, low, found)


def is_telling(raw: bytes, hints: tuple[str, ...] = HINTS) -> bool:
    """Whether `raw`, lower-case JSON of one or more texts, may hold what `scrub` replaces."""
    # Jobs and records repeat their entries, members, fields and reasons: what was quiet before is not looked through
    # again. A piece may begin or end in the middle of a text: no hint has the characters between two pieces.
    told, pieces = _quiet.setdefault(hints, (set(), set()))
    unread = set(raw.split(_BETWEEN)) - pieces
    new = set(b'"'.join(unread).decode().split('"')) - told
    if new:
        text = '"'.join(new)
        if any(map(text.__contains__, hints)) or ("@" in text and b":" in raw):
            return True
        if "://" in text and ("..." in text or "…" in text):
            return True
        _note(told, (each for each in new if len(each) <= _LONGEST_QUIET and not _BESIDE.search(each)))
    _note(pieces, (each for each in unread if len(each) <= _LONGEST_QUIET and not _BESIDE_RAW.search(each)))
    return False


def _note(quiet: set[_Quiet], found: Iterable[_Quiet]) -> None:
    """Remember what is short and tells nothing, neither alone nor beside another text."""
    if len(quiet) > _MOST_QUIET:
        quiet.clear()
    quiet.update(itertools.islice(found, _MOST_QUIET))


def is_harmless(value: str) -> bool:
    """Whether `value` is not a secret: a switch (`true`), or a variable by its name (`$(HF_TOKEN)`, `$HF_TOKEN`)."""
    if value.lower() in _SWITCHES:
        return True
    match = _REFERENCE.fullmatch(value)
    return match is not None and (match["bare"] is None or secret_names.is_secret(match["bare"]))


def _unformatted(text: str, low: str, found: set[str]) -> str:
    text = forms.tokens(text, low, lambda value: _mark(value, found))
    if len(text) > _LONGEST_ENCODED:
        return text
    return forms.encoded(text, _is_telling_text, lambda value: _mark(value, found))


def _is_telling_text(text: str) -> bool:
    """Whether what was encoded has a secret; something encoded in it is not looked at."""
    low = text.lower()
    if forms.tokens(text, low, lambda _: MARK) != text:
        return True
    return any(hint in low for hint in secret_names.HINTS) and _named(text, low, secret_names.is_secret, set()) != text


def _named(text: str, low: str, judge: Judge, found: set[str]) -> str:
    if ":" in low or " =" in low or "\t=" in low:
        text = lines.concealed(text, lambda name, value: not _is_shown(name, value, judge), lambda v: _mark(v, found))
    for piece, name, value in _NAMED:
        if piece in low:
            text = _without_values(text, name, value, judge, found)
    return text


def _without_values(text: str, name: re.Pattern[str], value: re.Pattern[str], judge: Judge, found: set[str]) -> str:
    pieces, done, place = [], 0, 0
    while match := name.search(text, place):
        place = match.end()
        if not judge(match["name"].strip("\"' \t-")):
            continue
        quote = match.groupdict().get("quote")
        secret = _QUOTED_VALUES.get(quote or "", value).match(text, place)
        if secret and not _is_shown(match["name"].strip("\"' \t-"), secret.group(), judge):
            pieces += [text[done:place], _mark(secret.group(), found)]
            done = place = secret.end()
    return "".join([*pieces, text[done:]]) if pieces else text


def _is_shown(name: str, value: str, judge: Judge) -> bool:
    return value.strip("\"'") == MARK or (value != "" and is_harmless(value)) or names_only(name) or not judge(name)


def names_only(name: str) -> bool:
    """Whether a name that says "secret" has values that only say which one."""
    return name in _REFERENCES or name.endswith(_REFERENCE_ENDS)


def _commanded(text: str, judge: Judge, found: set[str], depth: int = 0) -> str:
    """Mark the secrets among the words of each command in `text`, and of commands in quotes."""
    spans = sorted(_spans(text, 0, judge, depth))
    pieces, done = [], 0
    for start, end in spans:
        if start >= done and not is_harmless(text[start:end]) and text[start:end] != MARK:
            pieces += [text[done:start], _mark(text[start:end], found, ":")]
            done = end
    return "".join([*pieces, text[done:]]) if pieces else text


def _spans(text: str, base: int, judge: Judge, depth: int) -> Iterator[tuple[int, int]]:
    command, piped = _Command(), _Command()
    for match in _PIECE.finditer(text):
        if match["word"] is None:
            yield from command.secrets(piped, judge)
            command, piped = _Command(), command if match["end"] == "|" else _Command()
            continue
        word = match["word"]
        quoted = word[0] in "\"'" and len(word) > 1
        inner = word[1:-1] if quoted and word[-1] == word[0] else word[1:] if quoted else word
        if word.strip("\\\r\n"):
            command.add(inner, base + match.start() + quoted)
        if quoted and depth < _DEEPEST and " " in inner:
            yield from _spans(inner, base + match.start() + 1, judge, depth + 1)
    yield from command.secrets(piped, judge)


class _Command:
    """The words of a command without their quotes, and where each begins."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.places: list[int] = []

    def add(self, word: str, place: int) -> None:
        self.words.append(word)
        self.places.append(place)

    def secrets(self, piped: _Command, judge: Judge) -> Iterator[tuple[int, int]]:
        """Yield where secrets begin and end, also those that the command before hands over a pipe."""
        for index, start in commands.parts(self.words, judge):
            yield self.places[index] + start, self.places[index] + len(self.words[index])
        if commands.is_told_a_secret(self.words):
            for index in commands.said(piped.words):
                yield piped.places[index], piped.places[index] + len(piped.words[index])


def _whole_assignment(text: str, judge: Judge, found: set[str]) -> str | None:
    """Treat an argument `--name=value` or `NAME=value` as one: its value may hold any character."""
    name, equals, value = text.partition("=")
    if not (equals and value and name) or any(character.isspace() for character in name):
        return None
    if not name.startswith("-") and any(character.isspace() for character in value):
        return None
    if is_harmless(value) or not judge(name):
        return None
    return f"{name}={_mark(value, found, '&')}"


def _mark(value: str, found: set[str], separator: str = "\0") -> str:
    if value != MARK:
        found.update((value, value.strip("\"'"), _unquoted(value), *value.split(separator)))
    return MARK


def _unquoted(word: str) -> str:
    """Return a shell word as the program gets it; a quote that is open runs to the end of the text."""
    return _QUOTED.sub(lambda match: match["one"] or _ESCAPED.sub(r"\1", match["two"] or match["three"] or ""), word)
