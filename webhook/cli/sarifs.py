"""SARIF 2.1.0, which code hosts read to show findings beside the lines of a change.

Source: OASIS, Static Analysis Results Interchange Format 2.1.0 with Errata 01, sections 3.13 to 3.58.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from muster.webhook import catalogue
from muster.webhook.cli import places
from muster.webhook.cli.cases import Case
from muster.webhook.cli.problems import one_line
from muster.webhook.cli.unjudged import Unjudged
from muster.webhook.kubeyaml.composer import Spot
from muster.webhook.kubeyaml.sources import Origin, Unreadable

__all__ = ["FAILURE", "report"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
FAILURE = "failure"
"""The rule id of a result that says why no decision could be made."""


def report(decided: Sequence[Case], others: Sequence[Unjudged], unreadable: Sequence[Unreadable]) -> dict[str, Any]:
    """Return the log: one run, a result for each finding and failure, a notification for what is not judged or read."""
    results = [result for case in decided for result in _results(case)]
    used = list(dict.fromkeys(each["ruleId"] for each in results))
    for each in results:
        each["ruleIndex"] = used.index(each["ruleId"])
    notifications = [_notification(each.origin, each, "error") for each in unreadable]
    notifications += [_notification(each.origin, each, each.level) for each in others]
    run = {
        "tool": {"driver": {"name": "Muster", "rules": list(map(_rule, used))}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not unreadable, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _results(case: Case) -> Iterator[dict[str, Any]]:
    title = f"{case.title}{' (predicted)' if case.predicted else ''}"
    for each in case.findings:
        spot = places.of_finding(case, each)
        where = [_location(case.source.origin, spot, f"{case.namespace}/{case.title}/{each.field}")]
        yield _result(each.rule, each.severity.value, f"{title} {each}", where)
    if case.failure:
        where = [_location(case.source.origin, places.of_case(case), f"{case.namespace}/{case.title}")]
        yield _result(FAILURE, "error", f"{title} {case.failure}", where)


def _result(rule: str, level: str, text: str, locations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {"ruleId": rule, "level": level, "message": {"text": one_line(text)}, "locations": locations}


def _notification(origin: Origin, told: object, level: str) -> dict[str, Any]:
    spot = Spot(origin.line, 1) if origin.line else None
    return {"level": level, "message": {"text": one_line(told)}, "locations": [_location(origin, spot)]}


def _location(origin: Origin, spot: Spot | None, name: str = "") -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(origin.file)}}
    line = spot.line if spot is not None else origin.line
    if line:
        physical["region"] = {"startLine": line, **({"startColumn": spot.column} if spot is not None else {})}
    logical = {"logicalLocations": [{"fullyQualifiedName": one_line(name)}]} if name else {}
    return {"physicalLocation": physical, **logical}


def _uri(file: str) -> str:
    """Return a URI reference: relative for a relative path, which readers resolve from the root of the repository."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else urllib.parse.quote(path.as_posix().encode(errors="surrogateescape"))


def _rule(rule_id: str) -> dict[str, Any]:
    found = catalogue.find(rule_id)
    if found is None:
        return {"id": rule_id}
    rule, _ = found
    return {
        "id": rule_id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": one_line(rule.why)},
        "help": {"text": "\n".join(_help(rule_id, rule))},
    }


def _help(rule_id: str, rule: catalogue.Rule) -> Iterable[str]:
    yield from (one_line(rule.why), "", "For example:", "", rule.wrong)
    if rule.right:
        yield from ("", "Instead:", "", rule.right)
    yield from ("", f"Source: {one_line(rule.source)}", f"The same in a terminal: muster rule {rule_id}")
