"""Decides by a name whether its value is a secret: `HF_TOKEN` is, `TOKENIZERS_PARALLELISM` is not.

Training jobs have many names that look secret and are not (`--max_new_tokens`, `PAD_TOKEN`), and a log that hides them
explains nothing. So names are split into words, and tokens that are counted, or belong to a vocabulary, are not secret.
In doubt a name is secret, because a leaked value cannot be taken back.
"""

from __future__ import annotations

import functools
import itertools
import re

__all__ = ["HINTS", "is_secret"]

HINTS = ("token", "secret", "pass", "pwd", "key", "cred", "auth", "jwt", "bearer", "cookie", "git", "sig")
"""Lower-case pieces, one of which is in every name that `is_secret` accepts (a cheap test before the real one)."""

_LONGEST_REMEMBERED = 128
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")

_HOLDERS = (
    "access|account|api|auth|client|comet|deploy|encryption|hmac|license|master|openai|private|secret|service|signing"
    "|ssh|storage|tls|wandb"
)
_SECRET = re.compile(
    r"(?:tokens?|secrets?|passwords?|passwd|passphrase|credentials?|creds|auth|authorization|authentication)\d*(?:_|$)"
    r"|(?:^|_)(?:cookie|jwt|bearer)\d*(?:_|$)"
    r"|_pwd(?:_|$)|(?:^|_)pass$|^sig$|amz_signature|git(?:hub|lab)?_pat(?:_|$)"
    rf"|(?:{_HOLDERS})_?keys?\d*(?:_|$)",
)

_VOCABULARY = frozenset({"bos", "cls", "eos", "mask", "pad", "sep", "unk"})
_QUANTITIES = frozenset(
    {"added", "batched", "cached", "completion", "context", "draft", "generated", "input", "kv", "logprobs", "max"}
    | {"min", "n", "new", "num", "number", "output", "placeholder", "prompt", "special", "stop", "total", "virtual"}
)


def is_secret(name: str) -> bool:
    """Whether the value of `name` (a variable, a flag, a key, a dotted path) must not be shown."""
    return _remembered(name) if len(name) <= _LONGEST_REMEMBERED else _judge(name)


def _judge(name: str) -> bool:
    words = [word.lower() for word in _BOUNDARY.split(name) if word]
    if _has_plain_tokens(words):
        words = [word for word in words if word not in {"token", "tokens"}]
    return _SECRET.search("_".join(words)) is not None


_remembered = functools.lru_cache(maxsize=2048)(_judge)


def _has_plain_tokens(words: list[str]) -> bool:
    if "tokens" in words and not _QUANTITIES.isdisjoint(words):
        return True
    return any(second == "token" and first in _VOCABULARY for first, second in itertools.pairwise(words))
