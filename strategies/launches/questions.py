"""Questions: which commands of a shell are tests, and what the answer of a test depends on."""

from __future__ import annotations

import re

from muster.strategies.launches import trees

__all__ = ["is_test", "names"]

_TESTS = frozenset(
    {"test", "[", "grep", "egrep", "which", "type", "false", "command", "hash", "pgrep", "diff", "cmp", "read"}
)
_READS = re.compile(
    r"(?P<empty>-[nvz]\s+[\"']?)?(?:\$[{(]?\s*(?P<name>[A-Za-z_]\w*)(?P<rest>:?[-+=])?|^(?P<program>hostname)\b)"
)
_BARE = re.compile(r"[A-Za-z_]\w*")
_OF_PODS = re.compile(r"PET_NODE_RANK|JOB_COMPLETION_INDEX|HOSTNAME")


def is_test(pipeline: trees.Pipeline) -> bool:
    """Tell whether a pipeline is a question, whose answer decides what runs next."""
    last = pipeline.parts[-1]
    if pipeline.negated or isinstance(last, trees.Arithmetic):
        return True
    return isinstance(last, trees.Command) and bool(last.words) and last.words[0].plain in _TESTS


def names(text: str) -> frozenset[str]:
    """Return the variables whose values a text depends on.

    Left out are those of which it only asks whether they are set, and those with a default that no pod has.
    """
    bare = set(_BARE.findall(text)) if text.startswith("((") else set()
    for found in _READS.finditer(text):
        name = found["name"] or found["program"]
        if not found["empty"] and (not found["rest"] or _OF_PODS.fullmatch(name)):
            bare.add(name)
    return frozenset(bare)
