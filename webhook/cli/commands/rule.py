"""`muster rule`: lists the rules of findings and changes, and explains one."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from muster.webhook import catalogue
from muster.webhook.catalogue import Rule
from muster.webhook.cli import problems, terminal
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]

_HEADERS = ("RULE", "REPORTED AS", "WHAT IT IS ABOUT")
_INDENT = "  "


def run(args: argparse.Namespace) -> int:
    """List all rules, those of one framework, or explain one; see `commandline.json` for the arguments."""
    wanted = args.id or ""
    listed = [each for each in catalogue.load() if wanted in ("", each.partition("/")[0])]
    if listed:
        return _list(listed, args.output)
    found = catalogue.find(wanted)
    if found is None:
        raise problems.CommandError(_unknown(wanted))
    if args.output == "json":
        print(jsons.dump({"schema": problems.schema("rule"), **_object(wanted, found[0])}))
    else:
        print("\n".join(_explain(wanted, *found)))
    return problems.CLEAN


def _list(listed: list[str], output: str) -> int:
    rules = catalogue.load()
    if output == "json":
        print(jsons.dump(problems.versioned("rules", [_object(each, rules[each]) for each in listed])))
        return problems.CLEAN
    for number, group in enumerate(dict.fromkeys(each.partition("/")[0] for each in listed)):
        rows = [(each, rules[each]) for each in listed if each.partition("/")[0] == group]
        cells = [(each, ", ".join(rule.kinds), rule.title) for each, rule in rows]
        print("\n" * (number > 0) + "\n".join(terminal.layout(_HEADERS, cells, terminal.terminal_width())))
    return problems.CLEAN


def _explain(rule_id: str, rule: Rule, known: bool) -> Iterator[str]:
    width = terminal.terminal_width() - len(_INDENT)
    yield f"{rule_id}: {rule.title}"
    yield f"{_INDENT}reported as {', '.join(rule.kinds)}"
    if not known:
        yield f"{_INDENT}the catalogue has no {rule_id}; this is what the rule of this name means for torch"
    yield from ("", *_wrapped(rule.why, width))
    yield from ("", f"{_INDENT}for example{f' (with {rule.needs})' if rule.needs else ''}:", *_code(rule.wrong))
    if rule.right:
        yield from ("", f"{_INDENT}instead:", *_code(rule.right))
    yield from ("", *_wrapped(f"source: {rule.source}", width))
    others = [each for each in rule.ids if each != rule_id]
    if others:
        yield from _wrapped(f"the same: {', '.join(others)}", width)


def _wrapped(text: str, width: int) -> Iterator[str]:
    yield from (_INDENT + line for line in terminal.wrap(problems.one_line(text), width))


def _code(text: str) -> Iterator[str]:
    yield from (2 * _INDENT + line for line in text.splitlines())


def _object(rule_id: str, rule: Rule) -> dict[str, object]:
    return {
        "rule": rule_id,
        "reportedAs": list(rule.kinds),
        "title": rule.title,
        "why": problems.one_line(rule.why),
        "example": rule.wrong,
        "instead": rule.right or None,
        "needs": rule.needs or None,
        "source": problems.one_line(rule.source),
        "same": [each for each in rule.ids if each != rule_id],
    }


def _unknown(wanted: str) -> str:
    near = catalogue.closest(wanted)
    hint = f"; the nearest are {', '.join(near)}" if near else "; `muster rule` lists all"
    return f"{wanted[:100]!r} is not in the catalogue of rules{hint}; rules of other packages are not in it"
