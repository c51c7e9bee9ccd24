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

HINTS = (
    "tok", "secr", "pass", "pw", "key", "cred", "auth", "jwt", "bearer", "cookie", "git", "sig", "hub_t", "hub-t",
    "hubt", "hf_t", "hf-t", "hft", "pi_k", "pi-k", "pik", "cess_k", "cess-k", "cessk", "cess_t", "cess-t", "cesst",
)  # fmt: skip
"""Lower-case pieces, one of which is in every name that `is_secret` accepts (a cheap test before the real one)."""

_LONGEST_REMEMBERED = 128
_DIGITS = "0123456789"
_LONGEST_END = 64  # characters of a name in which a word may have been cut
_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")

_HOLDERS = (
    "access|account|admin|anthropic|api|app|auth|aws|azure|client|cohere|comet|crypt|datadog|deploy|encryption|fernet|gcp"
    "|gemini|google|gpg|groq|hf|hmac|hugging_?face|kaggle|langchain|langsmith|license|master|minio|mistral|neptune|ngc"
    "|openai|pgp|pinecone|private|registry|replicate|root|rsa|runpod|s3|secret|service|session|shared|signing|ssh|storage"
    "|stripe|subscription|tls|together|wandb|webhook"
)
_SECRET = re.compile(
    r"(?:tokens?|secrets?|passwords?|passwd|passphrase|credentials?|creds|auth|authorization|authentication)\d*(?:_|$)"
    r"|(?:^|_)(?:cookie|jwt|bearer|pw|pswd|pword|passcode|passkey)\d*(?:_|$)"
    r"|_pwd(?:_|$)|(?:^|_)pass$|^sig$|amz_signature|git(?:hub|lab)?_pat(?:_|$)"
    rf"|(?:{_HOLDERS})_?keys?\d*(?:_|$)",
)
# argparse takes a flag by any beginning that only one flag has (`--hub_tok`, `--hub_t`): the last word may be cut.
_BEGUN = re.compile(
    r"(?:^|_)(?:tok|toke|secr|secre|passw|passwo|passwor|passp|passph|passphr|passphra|passphras|cred|crede|creden)$"
    r"|(?:^|_)(?:credent|credenti|credentia|authori|authoriz|authoriza|authorizat|authorizati|authorizatio)$"
    r"|(?:hub|hf|auth|api|access|bearer|session|refresh)_to?$"
    r"|(?:access|api|auth|private|secret)_ke?$|(?:^|_)api_?ke?$",
)

_TOKENS = frozenset({"tok", "toke", "token", "tokens"})
_VOCABULARY = frozenset({"bos", "cls", "eos", "mask", "pad", "sep", "unk"})
_QUANTITIES = frozenset(
    {"added", "average", "batched", "cached", "completion", "context", "draft", "generated", "input", "kv", "logprobs"}
    | {"max", "min", "n", "new", "num", "number", "output", "placeholder", "prefill", "prompt", "special", "stop"}
    | {"threshold", "total", "virtual"}
)
# `--token_budget`, `--per_token_loss`: a piece of text, by the word beside it.
_BEFORE_PLAIN = frozenset({"audio", "delimiter", "end", "image", "multi", "per", "start", "template", "think", "video"})
_AFTER_PLAIN = frozenset(
    {
        "accuracy",
        "budget",
        "classification",
        "count",
        "embedding",
        "embeddings",
        "entropy",
        "id",
        "ids",
        "length",
        "limit",
    }
    | {"logprobs", "loss", "mask", "merge", "parallelism", "per", "rate", "seen", "threshold", "type", "usage"}
)
# Whose token it is: then it is not a piece of text.
_OWNERS = frozenset(
    {"access", "api", "auth", "bearer", "github", "gitlab", "hf", "hub", "refresh", "secret", "session"}
)


def is_secret(name: str) -> bool:
    """Whether the value of `name` (a variable, a flag, a key, a dotted path) must not be shown."""
    if name and name[-1] in _DIGITS:
        name = f"{name.rstrip(_DIGITS)}0"  # how it is numbered at its end says nothing, and the others are remembered
    return _remembered(name) if len(name) <= _LONGEST_REMEMBERED else _judge(name)


def _judge(name: str) -> bool:
    words = [word.lower() for word in _BOUNDARY.split(name) if word]
    if _has_plain_tokens(words):
        words = [word for word in words if word not in _TOKENS]
    joined = "_".join(words)
    return _SECRET.search(joined) is not None or _BEGUN.search(joined[-_LONGEST_END:]) is not None


_remembered = functools.lru_cache(maxsize=2048)(_judge)


def _has_plain_tokens(words: list[str]) -> bool:
    if ("tokens" in words or words[-1:] in (["tok"], ["toke"])) and not _QUANTITIES.isdisjoint(words):
        return True
    return _OWNERS.isdisjoint(words) and any(_is_plain(*pair) for pair in itertools.pairwise(words))


def _is_plain(first: str, second: str) -> bool:
    if second in _TOKENS:
        return first in _VOCABULARY or first in _BEFORE_PLAIN
    return first in _TOKENS and second in _AFTER_PLAIN
