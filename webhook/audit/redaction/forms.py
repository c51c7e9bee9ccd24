"""Secrets that are known by their form: tokens of providers, private keys, users and passwords in URLs, encoded text.

Each pattern is linear in the length of the text: where a match fails, the engine has looked at a part of the text that
no later attempt looks at again, or at a limited number of characters.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable

__all__ = ["HINTS", "SHORTEST", "calls", "encoded", "tokens", "userinfo"]


HINTS = (
    "hf_", "sk-", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "glptt-", "glrt-", "gldt-",
    "glsoat-", "glcbt-", "glagent-", "glft-", "glimt-", "akia", "asia", "aiza", "eyj", "xox", "nvapi-",
    "bearer ", "basic ",
    "private key", "_live_", "_test_", "whsec_", "dckr_pat_", "pypi-", "npm_", "dop_v1_", "shpat_", "sg.", "ya29.",
    "gsk_", "xai-", "hvs.", "hooks.slack.com", "ls0tls1", "api_org_", "age-secret-key-", "r8_", "tskey-",
    "pplx-", "wandb_v1_", "pwd=",
    # token, passw, secret and private in base64, at each of the three places where a word may begin.
    "dg9rzw", "rva2vu", "0b2tlb", "cgfzc3", "bhc3n3", "wyxnzd", "c2vjcmv0", "nly3jld", "zzwnyzx", "chjpdmf0z",
    "byaxzhdg", "wcml2yxrl",
)  # fmt: skip
"""Lower-case pieces, one of which is in every text that holds a known form (user:password@ in URLs apart)."""

Mark = Callable[[str], str]

SHORTEST = 12
"""Characters of the shortest text that holds a known form; those that are encoded have twice as many."""

_TOKENS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}|hf_(?=[A-Za-z]{0,15}\d)[A-Za-z0-9]{8,}|gh[opusr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{20,}|gl(?:pat|ptt|rt|dt|soat|cbt|agent|ft|imt)-[\w-]{16,}|nvapi-[\w-]{16,}|wandb_v1_\w{16,}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{12,}|whsec_[A-Za-z0-9+/=]{16,}|dckr_pat_[\w-]{16,}|pypi-[\w-]{32,}"
    r"|npm_[A-Za-z0-9]{20,}|dop_v1_[a-f0-9]{32,}|shpat_[A-Za-z0-9]{16,}|SG\.[\w-]{16,}\.[\w-]{16,}|ya29\.[\w-]{16,}"
    r"|gsk_[A-Za-z0-9]{20,}|xai-[A-Za-z0-9]{20,}|hvs\.[\w-]{20,}|api_org_[A-Za-z0-9]{16,}|r8_[A-Za-z0-9]{20,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{20,}|tskey-[a-z]{3,8}-[\w-]{12,}|pplx-[A-Za-z0-9]{20,}"
    r"|sk-(?=[A-Za-z_-]{0,60}\d)[\w-]{20,}|xox[abeoprs]-[\w-]{10,}|AIza[\w-]{35}|A(?:KIA|SIA)[A-Z0-9]{16}(?![A-Z0-9]))"
    r"|(?<![\w-])eyJ[\w-]{4,}\.[\w-]{4,}\.[\w-]*(?:\.[\w-]*){0,6}"
    r"|(?<=[Bb]earer )[\w.~+/=-]{8,}"
    r"|(?<=hooks\.slack\.com/services/)[\w/-]{16,}"
    r"|(?i:(?<=;pwd=)|(?<=; pwd=))[^;\s\"'\\]+",
    re.ASCII,
)
# `login("key")`, `auth=("user", "password")`, `BasicAuth("user", "password")`: arguments of Python without a name.
_CALLS = re.compile(
    r"(?:(?<=login\()|(?<=login\(key=)|(?<=login\(token=))[\"'][^\"'\n]{4,}|(?i:(?<=auth=\()|(?<=auth\())[^()\n]{3,}"
)
_BASIC = re.compile(r"(?i:(?<=\bbasic ))[A-Za-z0-9+/]{6,}={0,2}", re.ASCII)
_USERINFO = re.compile(r"(?<=://)[^/?#\s\"']+(?=@)")
# The same in a text that was cut, so that the host is missing; what is a port only may stay.
_USERINFO_CUT = re.compile(r"(?<=://)[^/?#\s\"'@:…]*:(?!\d{1,5}(?:…|\.\.\.))[^/?#\s\"'@…]{3,}?(?=…|\.\.\.)")
# `git clone oauth2:token@host/x` and `//user:token@host`; an image with a digest (`name:tag@sha256:`) is none.
_LOGIN = re.compile(
    r"(?:(?<![\w.+:/@-])|(?<=//))[\w.+-]{1,64}:(?P<value>[^\s:@/\"'\[\]]{4,})@(?!sha\d)(?=\w)", re.ASCII
)
_ENCODED = re.compile(r"(?<![A-Za-z0-9+/=_-])(?:[A-Za-z0-9+/]{24,}|[A-Za-z0-9_-]{24,})={0,2}(?![A-Za-z0-9+/=_-])")
# The same on several lines, as `base64` writes it.
_WRAPPED = re.compile(r"(?<![A-Za-z0-9+/=])(?:[A-Za-z0-9+/]{60,76}\r?\n[ \t]{0,32}){1,4096}[A-Za-z0-9+/]{1,76}={0,2}")


def calls(text: str, low: str, mark: Mark) -> str:
    """Replace what calls of Python log in with, where no name says so."""
    if "login(" not in low and "auth" not in low:
        return text
    return _CALLS.sub(lambda match: mark(match.group()), text)


def tokens(text: str, low: str, mark: Mark) -> str:
    """Replace tokens and keys of a known form in `text`; `low` is `text` in lower case."""
    if len(text) < SHORTEST or not any(map(low.__contains__, HINTS)):
        return text
    text = _TOKENS.sub(lambda match: mark(match.group()), text)
    if "basic " not in low:
        return text
    return _BASIC.sub(lambda match: mark(match.group()) if b":" in _decoded(match.group()) else match.group(), text)


def userinfo(text: str, mark: Mark) -> str:
    """Replace user and password in URLs, and in `user:password@host` without a scheme."""
    if "://" in text:
        text = _USERINFO.sub(lambda match: mark(match.group()), text)
        text = _USERINFO_CUT.sub(lambda match: mark(match.group()), text)
    if ":" not in text:
        return text
    return _LOGIN.sub(lambda match: _with_mark(match, mark), text)


def encoded(text: str, is_secret: Callable[[str], bool], mark: Mark) -> str:
    """Replace each base64 of a text that `is_secret`; what is encoded twice is not looked at."""
    if len(text) < 2 * SHORTEST:
        return text

    def replace(match: re.Match[str]) -> str:
        run = match.group()
        plain = _decoded("".join(run.split()))
        try:
            inner = plain.decode()
        except UnicodeDecodeError:
            return run
        return mark(run) if inner and is_secret(inner) else run

    return _ENCODED.sub(replace, _WRAPPED.sub(replace, text) if "\n" in text else text)


def _with_mark(match: re.Match[str], mark: Mark) -> str:
    whole, start = match.group(), match.start()
    return whole[: match.start("value") - start] + mark(match["value"]) + whole[match.end("value") - start :]


def _decoded(run: str) -> bytes:
    run = run.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(run + "=" * (-len(run) % 4))
    except (binascii.Error, ValueError):
        return b""
