"""JUnit XML for CI systems: one test case for each job, one error for each unreadable part of the input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml  # only used for writing; nothing is parsed

from muster.webhook.cli import places, wording
from muster.webhook.cli.cases import Case
from muster.webhook.cli.unjudged import Unjudged
from muster.webhook.kubeyaml.composer import Spot
from muster.webhook.kubeyaml.sources import Origin, Unreadable

__all__ = ["report", "text"]

_NAME = "muster check"
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def report(
    decided: Sequence[Case],
    others: Sequence[Unjudged],
    unreadable: Sequence[Unreadable],
    *,
    strict: bool = False,
    strict_open: bool = False,
) -> str:
    """Return the XML document: errors are failures of a test case, warnings are its output, with `strict` failures.

    What was not judged is a test case that was skipped, or with `strict` a failure where people train in it, and a
    property counts what has nothing to do with training. An end that is open is a failure with `strict_open`.
    """
    named = [each for each in others if each.what]
    failed = sum(case.fails(strict=strict, strict_open=strict_open) for case in decided)
    missed = sum(strict and each.trains for each in others)
    unread = {id(each.source) for each in others}
    decided = [case for case in decided if id(case.source) not in unread or case.findings or case.failure]
    counts = {
        "tests": str(len(decided) + len(named) + len(unreadable)),
        "failures": str(failed + missed),
        "errors": str(len(unreadable)),
        "skipped": str(len(named) - missed),
    }
    root = Xml.Element("testsuites", {"name": _NAME, **counts})
    suite = Xml.SubElement(root, "testsuite", {"name": _NAME, **counts})
    if len(named) < len(others):
        properties = Xml.SubElement(suite, "properties")
        Xml.SubElement(properties, "property", {"name": "ignored", "value": str(len(others) - len(named))})
    for case in decided:
        _add_case(suite, case, strict=strict, strict_open=strict_open)
    for other in named:
        test = _test(suite, other.origin, f"{other.source.kind} is judged")
        tag = "failure" if strict and other.trains else "skipped"
        Xml.SubElement(test, tag, {"type": "not-judged", "message": text(str(other))})
    for each in unreadable:
        test = _test(suite, each.origin, "readable")
        Xml.SubElement(test, "error", {"type": "unreadable", "message": text(each.message)}).text = text(str(each))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_case(suite: Xml.Element, case: Case, *, strict: bool, strict_open: bool) -> None:
    test = _test(suite, case.source.origin, case.title, _first(case))
    lines = list(wording.lines(case))
    wrong = case.errors + (case.warnings if strict else [])
    errors = [f"{each.field}: {each.message}" for each in wrong] + [case.failure] * bool(case.failure)
    errors += [str(case.ending["text"])] if strict_open and case.is_open else []
    if errors:
        kind = wrong[0].rule if wrong else "failure" if case.failure else "open"
        failure = Xml.SubElement(test, "failure", {"type": kind, "message": text("; ".join(errors))})
        failure.text = text("\n".join(lines))
    elif lines:
        Xml.SubElement(test, "system-out").text = text("\n".join(lines))


def _first(case: Case) -> Spot | None:
    """Return the place of the first error, else of the first finding, else of the job."""
    found = case.errors or case.findings
    return places.of_finding(case, found[0]) if found else places.of_case(case)


def _test(suite: Xml.Element, origin: Origin, name: str, spot: Spot | None = None) -> Xml.Element:
    members = {"name": text(name), "classname": text(str(origin)), "file": text(origin.file)}
    line = spot.line if spot is not None else origin.line
    if line:
        members["line"] = str(line)
    return Xml.SubElement(suite, "testcase", members)


def text(given: str) -> str:
    """Replace characters that XML 1.0 cannot express."""
    return _FORBIDDEN.sub("\ufffd", given)
