"""`python -m tools.findings`: the page docs/reference/findings.md, from the texts that `muster rule` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from muster.webhook import catalogue
from muster.webhook.catalogue import Rule

__all__ = ["main", "page"]

_WIDTH = 120
_GROUPS = {
    "core": "Every job",
    "claims": "Claims",
    "roles": "Roles",
    "": "Every framework on torch.distributed",
    "torchtune": "torchtune",
    "trl": "trl",
    "vllm": "vLLM",
}
_INTRODUCTION = """
Every finding of `muster check`, of `muster explain` and of an admission ends with the id of its rule, and every change
has one in the table of `muster explain` and in the [audit log](../audit.md). This page explains each id. `muster rule
trl/launch` prints the same text, `muster rule trl` lists the ids of one group, and `muster rule` lists all.

Ids are stable: one id is one kind of fault, whatever the words of its message. An id that is renamed is announced in
the change notes. Strategies of other packages have ids of their own, which are not on this page.

An **error** refuses the job in mode `enforce`: it would certainly fail, hang, or train something else than was asked
for. A **warning** lets it pass: something is idle, or is probably wrong. A **note** says what Muster cannot see, or why
it stays silent; `muster check` and `muster explain` show it, and kubectl does not. A **change** is what Muster writes.

This page is written by `make findings` from the files `rules.toml` beside the code that reports the rules.
"""


def main() -> int:
    """Print the page."""
    print(page(), end="")
    return 0


def page() -> str:
    """Return the page, as Markdown."""
    return "\n".join(("# Findings and changes, rule by rule", *_INTRODUCTION.rstrip().split("\n"), *_sections())) + "\n"


def _sections() -> Iterator[str]:
    rules = list(dict.fromkeys(catalogue.load().values()))
    groups = dict.fromkeys((*_GROUPS, *map(_group, rules)))
    for group in groups:
        inside = [rule for rule in rules if _group(rule) == group]
        if inside:
            yield from ("", f"## {_GROUPS.get(group, group)}")
        for rule in inside:
            yield from _entry(rule)


def _group(rule: Rule) -> str:
    return "" if rule.name.startswith("{") else rule.name.partition("/")[0]


def _entry(rule: Rule) -> Iterator[str]:
    yield from ("", f"### {rule.title}", "")
    yield from _wrapped(f"{', '.join(f'`{each}`' for each in rule.ids)}: {', '.join(rule.kinds)}.")
    yield from ("", *_wrapped(rule.why))
    yield from ("", f"For example{f', with {rule.needs}' if rule.needs else ''}:")
    yield from ("", "```yaml", rule.wrong, "```")
    if rule.right:
        yield from ("", "Instead:", "", "```yaml", rule.right, "```")
    yield from ("", *_wrapped(f"Source: {rule.source}."))


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), _WIDTH, break_long_words=False, break_on_hyphens=False)


if __name__ == "__main__":
    raise SystemExit(main())
