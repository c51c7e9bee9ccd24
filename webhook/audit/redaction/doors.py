"""The door: what Muster tells anybody outside of the log passes here, and no secret with it.

Answers, log lines of the process, Events and reports quote what a user wrote. Each text is redacted before it is cut,
since half a token could not be recognised, and whatever fails here ends in the word concealed, never in an exception.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

import orjson

from muster.strategies.documents.findings import Finding
from muster.webhook.audit.records import Record
from muster.webhook.audit.redaction import concealments, forms, texts, walks
from muster.webhook.audit.redaction.echoes import Echoes
from muster.webhook.audit.redaction.redaction import DEFAULT, Rules, by_field

__all__ = ["LONGEST", "Reading", "field", "fields", "findings", "further", "safely", "text", "value"]

LONGEST = 8192
"""Characters of one text outside of the audit log."""

_READ = 8 * LONGEST  # characters that are looked at
# Characters of different texts of a document that are looked through for the secrets that findings quote.
_LARGEST = 128 * 1024
_WHOLE = 2**63
# A name in a path that may announce a secret; none that Kubernetes takes has these characters.
_ODD = re.compile(r"\[(?=[^\[\]\s=:{@,]*[\s=:{@,])[^\[\]]*\]")
_NAMES = re.compile(r"[^\s=:{@,]*")
# Of a document with more text, what its words are, and the words of a message that may be theirs.
_RUN = re.compile(r"(?<![\w-])(?=[A-Za-z_-]{0,16}[0-9]|[A-Za-z_-]{17})[\w-]{6,}", re.ASCII)
_QUOTABLE = re.compile(r"[^\s\"']{6,}")
_WORD = 4096  # characters before a cut in which its word begins
# A variable that takes its value from a Secret, and keys of every pod: most jobs have no other word of a secret.
_TAKEN = re.compile(rb'\{"name":"\w{1,128}","valuefrom":\{"secretkeyref":\{[^{}]{0,512}\}\}\}', re.ASCII)
_PLAIN = (b'"key":', b'"topologykey":')
# Shared documents that hold no secret by the built-in rules; at most 2 MB.
_SHORT, _MOST_SILENT = 16 * 1024, 128
_silent: set[bytes] = set()
# Short texts that have nothing to hide by the rules in force, as those that Muster says of each job.
_BRIEF, _MOST_PLAIN = 128, 512
_plain: set[str] = set()


class _InForce:
    """The rules of this process: lines of its log come from everywhere, and nobody there could hand them over."""

    rules = DEFAULT
    judge = staticmethod(DEFAULT.judge(frozenset()))


def further(rules: Rules) -> None:
    """Use these rules from now on; a service has one configuration of them, which it reads at its start."""
    _InForce.rules, _InForce.judge = rules, staticmethod(rules.judge(frozenset()))
    _plain.clear()


def text(given: object, longest: int = LONGEST) -> str:
    """Return a text, or what `str` says of another object, without secrets, cut at `longest` characters."""
    try:
        whole = given if isinstance(given, str) else str(given)
        return whole if whole in _plain and len(whole) <= longest else _told(whole, longest)
    except Exception:  # noqa: BLE001  # an exception of a plugin may raise when it is told
        return concealments.WORD


def _told(whole: str, longest: int) -> str:
    told = _cut(_scrubbed(_beginning(whole)), longest, len(whole))
    if told == whole and len(whole) <= _BRIEF:
        if len(_plain) >= _MOST_PLAIN:
            _plain.clear()
        _plain.add(whole)
    return told


def field(given: str) -> str:
    """Return the path of a field, whose names may be secrets; those that Kubernetes takes do not announce one."""
    if _InForce.rules != DEFAULT or not _NAMES.fullmatch(given):
        return text(_ODD.sub(f"[{texts.MARK}]", given))
    return forms.tokens(given, given.lower(), lambda _: texts.MARK)


def fields(given: Sequence[str]) -> Sequence[str]:
    """Return the paths of fields as `field` does; most have nothing to hide, which is seen of all of them at once."""
    together = "\0".join(given)
    return given if field(together) == together else [field(each) for each in given]


def value(given: object) -> object:
    """Return a value that JSON can express, without secrets."""
    if given is None or isinstance(given, float) or (isinstance(given, int) and abs(given) < _WHOLE):
        return given
    if isinstance(given, str):
        return text(given)
    try:
        raw = orjson.dumps(given, default=text)
        return given if not _is_telling(raw) and len(raw) <= LONGEST else text(raw.decode())
    except TypeError:
        return text(given)


def findings(
    found: Sequence[Finding], lines: Sequence[str] = (), document: object = None
) -> tuple[list[Finding], list[str]]:
    """Return findings and other lines of one answer without secrets.

    Args:
        found: the findings.
        lines: what else the answer says.
        document: what they are about, where a name or a flag may say that a word they quote is a secret.
    """
    try:
        return Reading(document).findings(found, lines)
    except Exception:  # noqa: BLE001  # an answer is due, whatever a strategy put into its findings
        return _concealed(found, lines)


def safely(redactor: Callable[[Record], Record]) -> Callable[[Record], Record]:
    """Return a redactor that conceals the body of a record where `redactor` fails."""

    def safe(record: Record) -> Record:
        try:
            return redactor(record)
        except Exception as error:  # noqa: BLE001  # the notice is due; the writer of the log reports the failure
            return concealments.concealed(record, f"its redaction failed with {type(error).__name__}")

    return safe


class Reading:
    """What documents hold that nobody may be told, found once for all that is told about them.

    Of documents with more than 128 KiB of different texts, only the secrets are known that a name or a flag announces.

    Args:
        document: a JSON value.
        shared: another one that many jobs have in common, such as their runtime. Where it nests too deep to be written,
            nothing that quotes it is told.

    Raises:
        TypeError: the document has a value that JSON cannot express.
    """

    def __init__(self, document: object, shared: object = None) -> None:
        self._walk = _walk(_LARGEST)
        self._words: frozenset[str] | None = None
        raw, common = orjson.dumps(document), _written(shared)
        self._is_told = common is not None
        if common is None:
            shared, common = None, b""
        if _announces(raw) or not _is_silent(common):
            self._read([document, shared], raw + common)
        self.secrets = self._walk.unlimited().echoes

    def _read(self, document: object, raw: bytes) -> None:
        if not _is_too_much(raw):
            try:
                self._walk.value(document)
            except walks.TooMuchError:
                pass
            else:
                return
        self._words = _words(raw)
        self._walk.by_name(document)

    def findings(self, found: Sequence[Finding], lines: Sequence[str]) -> tuple[list[Finding], list[str]]:
        """Return findings and other lines of one answer without secrets."""
        try:
            return _findings(found, lines, self._walk, self._words) if self._is_told else _concealed(found, lines)
        except Exception:  # noqa: BLE001  # an answer is due, whatever a strategy put into its findings
            return _concealed(found, lines)


def _written(shared: object) -> bytes | None:
    try:
        return orjson.dumps(shared)
    except TypeError:
        return None


def _concealed(found: Sequence[Finding], lines: Sequence[str]) -> tuple[list[Finding], list[str]]:
    hidden = [dataclasses.replace(each, value=None, message=concealments.WORD) for each in found]
    return hidden, [concealments.WORD] * len(lines)


def _findings(
    found: Sequence[Finding], lines: Sequence[str], walk: walks.Walk, known: frozenset[str] | None
) -> tuple[list[Finding], list[str]]:
    if not found and not any(lines):
        return [], list(lines)
    raw = orjson.dumps([[(each.field, each.value, each.message) for each in found], lines], default=str)
    if known is not None:
        found = [_unquoting(each, known) for each in found]
        lines = [_strange(line, known) for line in lines]
    if not walk.echoes and not _is_telling(raw):
        return list(found), list(lines)
    shown = [_finding(each, walk) for each in found]
    said = [walk.text(_beginning(line)) for line in lines]
    echoes = walk.echoes
    if not echoes:
        return shown, said
    return [_without(each, echoes) for each in shown], [echoes.text(line) for line in said]


def _without(each: Finding, echoes: Echoes) -> Finding:
    field, message = echoes.text(each.field), echoes.text(each.message)
    return dataclasses.replace(each, field=field, value=echoes.value(each.value), message=message)


def _is_too_much(raw: bytes) -> bool:
    """Whether JSON has so many different texts that a walk through them would not come to its end."""
    return len(raw) > 2 * _LARGEST and sum(map(len, set(raw.split(b'"')))) > 2 * _LARGEST


def _announces(raw: bytes) -> bool:
    """Whether a document as JSON may hold a secret itself, and not only say in which Secret one is."""
    if _InForce.rules != DEFAULT:
        return True
    raw = raw.lower()
    for each in _PLAIN:
        raw = raw.replace(each, b"")
    return texts.is_telling(_TAKEN.sub(b"", raw))


def _is_silent(raw: bytes) -> bool:
    """Whether a document that many jobs have in common announces nothing; it is looked through once for all of them."""
    if _InForce.rules != DEFAULT or raw in _silent:
        return _InForce.rules == DEFAULT
    if _announces(raw):
        return False
    if len(raw) <= _SHORT:
        if len(_silent) >= _MOST_SILENT:
            _silent.clear()
        _silent.add(raw)
    return True


def _walk(most: int | None = None) -> walks.Walk:
    return walks.Walk(_InForce.judge, _InForce.rules.formats, most)


def _is_telling(raw: bytes) -> bool:
    """Whether texts as JSON may hold a secret; the hints are for the built-in rules only."""
    return _InForce.rules != DEFAULT or texts.is_telling(raw.lower())


def _scrubbed(given: str) -> str:
    walk = _walk()
    shown = walk.text(given)
    return shown if shown == given else walk.echoes.text(shown)


def _unquoting(each: Finding, known: frozenset[str]) -> Finding:
    """Return a finding without the texts that it quotes: each may be a secret, which nothing nearby says."""
    message = _strange(each.message, known)
    if each.value is None or isinstance(each.value, bool | int | float):
        return dataclasses.replace(each, message=message)
    quoted = each.value if isinstance(each.value, str) else ""
    message = _strange(each.message.replace(quoted, texts.MARK) if quoted else each.message, known)
    return dataclasses.replace(each, value=texts.MARK, message=message)


def _words(raw: bytes) -> frozenset[str]:
    """Return the words of a document as JSON that may be secrets; those with letters only may be names of the API."""
    return frozenset(_RUN.findall(raw.decode()))


def _strange(message: str, known: frozenset[str]) -> str:
    """Return a message of Muster without the words that are the document's, and those that were cut."""

    def hidden(match: re.Match[str]) -> str:
        word = match.group()
        is_quote = word.endswith(("…", "...")) or not known.isdisjoint(_RUN.findall(word))
        return texts.MARK if is_quote and word != texts.MARK else word

    return _QUOTABLE.sub(hidden, _beginning(message))


def _finding(each: Finding, walk: walks.Walk) -> Finding:
    conceal = by_field(each.field, walk) or walk.value
    message, field = walk.sentence(_beginning(each.message)), walk.text(_beginning(each.field))
    return dataclasses.replace(each, field=field, value=conceal(each.value), message=message)


def _beginning(whole: str) -> str:
    """Return as much of a text as is looked at, up to a whole word."""
    if len(whole) <= _READ:
        return whole
    start = whole[:_READ]
    blank = max(start.rfind(" ", _READ - _WORD), start.rfind("\n", _READ - _WORD), _READ - _WORD)
    return start[:blank]


def _cut(shown: str, longest: int, length: int) -> str:
    return shown if len(shown) <= longest else f"{shown[:longest]}… of {length} characters"
