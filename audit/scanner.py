"""Takes tokens of a known form out of texts that quote what a user wrote: replies, terminals, lines of the process log.

Where a platform records whole values (`audit.record: full`), this is what is taken out of them. It is a safety net with
few patterns: names that end like one of a secret, tokens of well-known providers, and passwords in URLs. `known` is
what a record has by default. Each pattern takes time in proportion to the text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from muster.audit import record_schema

__all__ = ["LONGEST", "MARK", "Names", "compiled", "is_secret", "record", "text", "value", "who"]

MARK = "<redacted>"
"""What stands in place of a secret."""
LONGEST = 8192
"""Characters of a text that is shown."""

Names = re.Pattern[str] | None
"""Further names of secrets, of the configuration (`audit.redact`)."""

_READ = 8 * LONGEST  # characters that are looked at
_DEEPEST = 40  # levels of a value that is shown
_PREFIX = (
    r"(?<![A-Za-z0-9])(?:hf_|gh[opusr]_|github_pat_|gl(?:pat|rt|dt|cbt|ptt|ft)-|nvapi-|wandb_v1_|[sr]k_(?:live|test)_|sk-"
    r"|pypi-|npm_|dckr_pat_|gsk_|xai-|hv[bs]\.|r8_|pplx-|tml-|AIza|ya29\.|xox[abeoprs]-|SG\.|A(?:KIA|SIA)(?=[A-Z0-9]{16}\b)"
    r"|xapp-\d-|GOCSPX-|whsec_|do[op]_v1_|glsa_|ATATT3|ATCTT3|(?:SK|dapi)(?=[0-9a-f]{32}\b)|[1-9]\d{7,9}:AA(?=[\w-]{8})"
    r"|AGE-SECRET-KEY-1|pcsk_|lsv2_(?:pt|sk)_|rpa_|tvly-|sbp_|shpat_|lin_api_|ntn_|CCIPAT_|tskey-(?:auth|api)-|PMAK-"
    r"|NRAK-|sntry[su]_|dp\.pt\.|figd_|sk-or-v1-|sk-lf-|tgp_v1_|aph0_|jina_|KGAT_|AQ\.Ab|dckr_oat_|api_org_"
    r"|(?:fw_|a[ks]-)(?=[A-Za-z0-9]{22,24}(?!\w|-\D))|sk_(?=[0-9a-f]{48}\b)|pul-(?=[0-9a-f]{40}\b))"
)
_TOKENS = re.compile(
    r"-----BEGIN [A-Z ]{0,32}PRIVATE KEY[\s\S]*"  # to the end of the text
    rf"|{_PREFIX}"
    # A name of Kubernetes has no capitals, and words between dashes. The beginning of a token may be all that is left.
    r"(?:(?=[\w.-]{0,200}[A-Z])[\w.-]{12,}|(?:(?=[a-z]{0,64}\d)[a-z0-9]{20}|[a-z]{32})[\w.-]*"
    r"|(?<=sk-lf-)[0-9a-f-]{36}|(?=[\w-]{0,200}[0-9A-Z])[\w-]{8,200}(?=…|\.\.\.))"
    r"|(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"
    r"|(?<![\w-])eyJ[\w-]{4,}\.[\w-]{4,}(?:\.[\w-]*)?"
    r"|(?i:(?<=authorization: bearer )|(?<=authorization: basic ))[\w.~+/=-]{8,}"
    r"|(?i:(?<=bearer )|(?<=basic ))(?=[a-z.~+/=-]{0,200}[A-Z\d])[\w.~+/=-]{16,}"
    r"|(?<=//)(?!git@)[^/?#\s\"'@…]{1,512}(?=@)"  # in URLs
    r"|(?<=//)[^/?#\s\"'@:…]{0,256}:(?!\d{1,5}(?:…|\.\.))[^/?#\s\"'@…]{1,512}(?=…|\.\.\.)"  # and cut
    r"|(?<![\w.:@-])[\w.-]{1,64}:(?!(?:latest|main|stable|v?\d{1,4}(?:\.\d{1,4}){1,3})@)"
    r"[^:/@\s\"']{3,256}(?=@(?!sha\d)[A-Za-z0-9])"  # an image with a password
    r"|(?<=[?&]sig=)[\w%+/=-]{16,}|(?<=X-Amz-Signature=)[0-9a-f]{16,}|(?<=hooks\.slack\.com/services/)[\w/]{16,}"
    r"|(?<![A-Za-z0-9])[\w.~-]{3}\dQ~[\w.~-]{8,}|(?<![A-Za-z0-9])[A-Za-z0-9]{76}AZDO[A-Za-z0-9]{4}"  # Azure
    r"|(?<![A-Za-z0-9+])[A-Za-z0-9+/]{86}=="  # Azure's storage
    # Of AWS: Bedrock and sessions; OpenSSH's keys without their lines.
    r"|(?<![A-Za-z0-9])(?:ABSK|IQoJb3JpZ2lu|FwoGZXIvYXdz|b3BlbnNzaC1rZXktdjE)[A-Za-z0-9+/]{64,}={0,2}"
    # W&B, where no git commit is meant; Azure DevOps
    r"|(?<!revision[ =])(?<!revision: )(?<!revision\": \")(?<!commit[ =/])(?<!commit: )(?<!checkout )"
    r"(?<!/tree/)(?<!/blob/)(?<!/snapshots/)(?<!\w:)(?<![\w@.-])[0-9a-f]{40}(?!\w)"
    r"|(?<![\w@.-])(?:(?=[a-z]{0,51}\d)[a-z2-7]{52})(?!\w)"
    # A long word of letters and digits that was cut: nobody knows its form.
    r"|(?<![A-Za-z0-9+/])(?=[A-Za-z+/]{0,200}\d)(?=[\d+/]{0,200}[A-Za-z])[A-Za-z0-9+/]{16,}(?=…|\.\.\.)",
    re.ASCII,
)
# Nearly all texts have no token. These say so in a seventh of the time: each token has one of them.
_MAYBE = re.compile(rf"{_PREFIX}|[0-9a-z]{{40}}", re.ASCII)
_SIGNS = (
    "@", "==", "…", "...", "eyJ", "sig=", "Signature=", "hooks.slack", "Q~", "AZDO", ".atlasv1.", "-----BEGIN",
    "ABSK", "IQoJ", "FwoG", "b3Bl",
)  # fmt: skip
_SCHEMES = ("bearer ", "basic ")
_HOLDERS = ("token", "secret", "passw", "passphrase", "credential", "pwd", "cookie", "jwt", "auth", "key")
_SHORTEST = 16  # characters of what is read as base64
_LINE_END = r"(?:\r?\n|(?:\\{1,8}r)?\\{1,8}n)"  # also as JSON and Python write it
_ENCODED = re.compile(  # base64, perhaps in lines or cut
    rf"[A-Za-z0-9+/_-]{{{_SHORTEST},}}(?:{_LINE_END}[A-Za-z0-9+/_-]+)*={{0,2}}(?:…|\.\.\.)?"
)
_BETWEEN = re.compile(rf"{_LINE_END}|[=….]+")
_PLAIN_BASE64 = str.maketrans("-_", "+/")
_DECODED = re.compile(rb"[\t\r\n -~]{8,}")
_NESTED = 2  # times that a text may be in base64
_HOLDER = (
    r"(?:tokens?|secrets?|passw(?:or)?ds?|passphrases?|credentials?|pwd|cookie|jwt|auth(?:orization)?"
    r"|(?:api|access|account|private|secret|auth)[_-]?keys?)"
)
_NAME = re.compile(rf"(?:^|[_./-]){_HOLDER}\d{{0,3}}$")
_PLAIN = re.compile(
    r"(?:^|[_.-])(?:bos|cls|eos|mask|pad|sep|unk|image|video|audio|max|new|num|stop|special|per|total|n)[_-](?:\w{1,40}[_-])?tokens?$"
)
_ODD = re.compile(r"[0-9A-Z]")
_PLAIN_NUMBER = re.compile(r"\d{1,12}")
_PASSWORD = re.compile(r"(?i:pass|pwd)")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_ASSIGNED = re.compile(
    rf"(?i:(?<![A-Za-z0-9])(?P<name>[\w.-]{{0,64}}?{_HOLDER})(?:\\{{0,8}}[\"'])?(?:\s{{0,3}}[=:]\s{{0,3}}| )"
    r"\\{0,8}(?P<value>\"[^\"\n]*\"?|'[^'\n]*'?|[^\s\"',;&]+))"
)


def compiled(names: Sequence[str]) -> Names:
    """Compile regular expressions of further names; ValueError names one that is none."""
    for each in names:
        try:
            re.compile(each)
        except re.error as error:
            raise ValueError(f"{each!r} is not a regular expression: {error}; correct or remove it") from error
    return re.compile("|".join(f"(?:{each})" for each in names), re.IGNORECASE) if names else None


def is_secret(name: str, further: Names = None) -> bool:
    """Whether a variable, a flag or a key of this name holds a secret."""
    if further is not None and further.search(name):
        return True
    plain = _CAMEL.sub("_", name[-128:]).lower()
    return _NAME.search(plain) is not None and _PLAIN.search(plain) is None


def text(given: object, longest: int = LONGEST) -> str:
    """Return a text, or the `str` of another object, without secrets, cut at `longest` characters; never raises."""
    try:
        whole = given if isinstance(given, str) else str(given)
        shown = _masked(whole[:_READ])
    except Exception:  # noqa: BLE001  # an exception of a plugin may raise when its text is asked for
        return MARK
    return shown if len(shown) <= longest else f"{shown[:longest]}… of {len(whole)} characters"


def value(given: object, further: Names = None) -> object:
    """Return a JSON value without secrets."""
    return _value(given, lambda name, shown: _is_hidden(name, shown, further), 0)


def record(raw: record_schema.Record, further: Names = None) -> record_schema.Record:
    """Return a record with the values that the job has, without secrets; `raw` is not changed."""
    out = cast("dict[str, object]", value({**raw, "user": {}, "changes": [], "findings": []}, further))
    user: record_schema.User = {**raw["user"], "username": who(raw["user"]["username"])}
    if "groups" in user:
        user["groups"] = [*map(who, user["groups"])]
    out["user"] = user
    for part in ("changes", "findings"):
        out[part] = [_entry(each, further) for each in cast("Sequence[Mapping[str, object]]", raw[part])]
    return cast("record_schema.Record", out)


def who(given: str) -> str:
    """Return the name of a user or a group; a mark where all of it is a token, which only a stranger has as a name."""
    return MARK if text(given) == MARK else given


def _entry(entry: Mapping[str, object], further: Names) -> dict[str, object]:
    """Return a change or a finding; its field may say that its value is a secret."""
    last = re.split(r"[.\[\]/]+", str(entry["field"]).removesuffix(".value").rstrip("]"))[-1]
    is_hidden = is_secret(last, further)
    hidden = {key: MARK for key in ("before", "after", "value") if is_hidden and isinstance(entry.get(key), str)}
    return {key: hidden.get(key) or value(item, further) for key, item in entry.items()}


def _is_hidden(name: str, shown: object, further: Names = None) -> bool:
    """Whether a text is a secret because of its name: a number is none, but behind the name of a password."""
    if not isinstance(shown, str) or not is_secret(name, further):
        return False
    is_further = further is not None and further.search(name) is not None
    return is_further or not _PLAIN_NUMBER.fullmatch(shown) or _PASSWORD.search(name) is not None


def _value(given: object, judge: Callable[[str, object], bool], level: int) -> object:
    if isinstance(given, str):
        return _masked(given)
    if level > _DEEPEST:
        return MARK
    if isinstance(given, list | tuple):
        out: list[object] = []
        for each in given:
            before = given[len(out) - 1] if out else ""
            is_hidden = isinstance(before, str) and before.startswith("-") and judge(before, each)
            out.append(MARK if is_hidden else _value(each, judge, level + 1))
        return out
    if isinstance(given, Mapping):
        named = given.get("name")
        if isinstance(named, str) and judge(named, given.get("value")):
            given = {**given, "value": MARK}
        return {
            _masked(str(key)): MARK if judge(str(key), each) else _value(each, judge, level + 1)
            for key, each in given.items()
        }
    return given


def _masked(given: str, nested: int = 0) -> str:
    plain = given.casefold()
    if _may_have_token(given, plain):
        given = _TOKENS.sub(MARK, given)
    if any(map(plain.__contains__, _HOLDERS)) and ("=" in given or ":" in given or " " in given):
        given = _ASSIGNED.sub(_without_value, given)
    if nested == _NESTED or len(given) < _SHORTEST:
        return given
    return _ENCODED.sub(lambda found: MARK if _encodes(found.group(), nested + 1) else found.group(), given)


def _may_have_token(given: str, plain: str) -> bool:
    """Whether a text, which is there without capitals too, may have what `_TOKENS` finds."""
    found = any(map(given.__contains__, _SIGNS)) or any(map(plain.__contains__, _SCHEMES))
    return found or _MAYBE.search(given) is not None


def _encodes(given: str, nested: int) -> bool:
    """Whether a text is base64 of a secret: from any of four places, since a path may stand before it."""
    plain, end = _BETWEEN.sub("", given).translate(_PLAIN_BASE64), "…" if given.endswith(("…", ".")) else ""
    for begin in range(4 if nested == 1 else 1):
        part = plain[begin:]
        decoded = base64.b64decode(part + "A" * (-len(part) % 4))
        for found in _DECODED.findall(decoded):
            text = found.decode() + end
            if _masked(text, nested) != text:
                return True
    return False


def _without_value(match: re.Match[str]) -> str:
    whole, name, shown = match.group(), match["name"], match["value"]
    is_sentence = whole[len(name)] == " " and not name.startswith("-")  # a blank divides only a flag and its value
    is_word = len(shown) < 4 or (len(shown) < 16 and not _ODD.search(shown))
    is_hidden = _is_hidden(name, shown.strip("\"'"))
    if is_sentence or is_word or not is_hidden or shown.startswith(("$", "<", "-")):  # a reference; a mark
        return whole
    return whole[: match.start("value") - match.start()] + MARK
