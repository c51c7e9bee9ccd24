"""JUnit XML for CI systems: one test case for each job, one error for each unreadable part of the input."""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as Xml  # only used for writing; nothing is parsed

from webhook.cli import places, wording
from webhook.cli.cases import Case
from webhook.kubeyaml.positions import Spot
from webhook.kubeyaml.sources import Origin, Unreadable

__all__ = ["report", "text"]

_NAME = "muster check"
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def report(decided: Sequence[Case], unreadable: Sequence[Unreadable], *, strict: bool = False) -> str:
    """Return the XML document: errors are failures of a test case, warnings are its output, or failures if `strict`."""
    failed = [case for case in decided if case.fails(strict=strict)]
    counts = {
        "tests": str(len(decided) + len(unreadable)),
        "failures": str(len(failed)),
        "errors": str(len(unreadable)),
    }
    root = Xml.Element("testsuites", {"name": _NAME, **counts})
    suite = Xml.SubElement(root, "testsuite", {"name": _NAME, **counts})
    for case in decided:
        _add_case(suite, case, strict=strict)
    for each in unreadable:
        test = _test(suite, each.origin, "readable")
        Xml.SubElement(test, "error", {"type": "unreadable", "message": text(each.message)}).text = text(str(each))
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _add_case(suite: Xml.Element, case: Case, *, strict: bool) -> None:
    test = _test(suite, case.source.origin, case.title, _first(case))
    lines = list(wording.lines(case))
    wrong = case.errors + (case.warnings if strict else [])
    errors = [f"{each.field}: {each.message}" for each in wrong] + [case.failure] * bool(case.failure)
    if errors:
        kind = wrong[0].rule if wrong else "failure"
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
