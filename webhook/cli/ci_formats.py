"""Reports of `muster check` and `muster test` for programs of others: JUnit XML, SARIF, and commands of GitHub Actions.

Sources: OASIS, Static Analysis Results Interchange Format 2.1.0 with Errata 01, sections 3.13 to 3.58; docs.github.com,
Workflow commands for GitHub Actions, with `escapeData` and `escapeProperty` of actions/toolkit.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as Xml  # only used for writing; nothing is parsed

from muster.webhook import catalogue
from muster.webhook.cli import unjudged
from muster.webhook.cli.findings_report import FAILURE, Entry, Report, entries, lines
from muster.webhook.cli.problems import one_line
from muster.webhook.kubeyaml import jsons
from muster.webhook.kubeyaml.sources import Origin

__all__ = ["Test", "github", "junit", "sarif", "suite"]

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # XML 1.0 cannot express them
_LEVELS = {"error": "error", "warning": "warning", "note": "notice"}
_DATA = {"%": "%25", "\r": "%0D", "\n": "%0A"}
_PROPERTY = {**_DATA, ":": "%3A", ",": "%2C"}


class Test(NamedTuple):
    """One test case of JUnit.

    Attributes:
        name, classname, file: what it is about.
        line: in the file, 0 for none.
        tag: `failure`, `error` or `skipped`; `system-out` and "" are a test that passes.
        members: `type` and `message` of the tag.
        text: inside of the tag.
    """

    name: str
    classname: str
    file: str
    line: int = 0
    tag: str = ""
    members: Mapping[str, str] = {}
    text: str | None = None


def suite(name: str, tests: Sequence[Test], ignored: int = 0) -> str:
    """Return the XML document of tests; `ignored` is a property that counts what has no test."""
    tags = [each.tag for each in tests]
    counts = {"tests": len(tests), "failures": tags.count("failure"), "errors": tags.count("error")}
    counts |= {"skipped": tags.count("skipped")} if name == "muster check" else {}
    members = {"name": name, **{key: str(value) for key, value in counts.items()}}
    root = Xml.Element("testsuites", members)
    inside = Xml.SubElement(root, "testsuite", members)
    if ignored:
        properties = Xml.SubElement(inside, "properties")
        Xml.SubElement(properties, "property", {"name": "ignored", "value": str(ignored)})
    for each in tests:
        about = {"name": each.name, "classname": each.classname, "file": each.file}
        about |= {"line": str(each.line)} if each.line else {}
        test = Xml.SubElement(inside, "testcase", {key: _xml(value) for key, value in about.items()})
        if each.tag:
            tag = Xml.SubElement(test, each.tag, {key: _xml(value) for key, value in each.members.items()})
            tag.text = None if each.text is None else _xml(each.text)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def junit(report: Report) -> str:
    """Return a test case for each job: errors are failures, warnings are output, with `strict` failures too.

    What was not judged is a test case that was skipped, or with `strict` a failure where people train in it, and a
    property counts what has nothing to do with training. An end that is open is a failure with `strict_open`.
    """
    named = [each for each in report.others if each.what]
    tests = [*_tests(report)]
    for other in named:
        tag = "failure" if report.strict and other.trains else "skipped"
        members = {"type": "not-judged", "message": str(other)}
        tests.append(_test(other.origin, f"{other.source.kind} is judged", tag, members))
    for each in report.unreadable:
        members = {"type": "unreadable", "message": each.message}
        tests.append(_test(each.origin, "readable", "error", members, str(each)))
    return suite("muster check", tests, len(report.others) - len(named))


def _tests(report: Report) -> Iterator[Test]:
    unread = {id(each.source) for each in report.others}
    for case in report.decided:
        found = [*entries(case)]
        if id(case.source) in unread and not found:
            continue
        wrong = case.errors + (case.warnings if report.strict else [])
        errors = [f"{each.field}: {each.message}" for each in wrong] + [case.failure] * bool(case.failure)
        errors += [str(case.ending["text"])] if report.strict_open and case.is_open else []
        first = next((each for each in found if each.level == "error"), found[0] if found else None)
        spot = first.spot if first else case.source.find(())
        line, text = spot.line if spot else case.source.origin.line, "\n".join(lines(case))
        about = (case.title, str(case.source.origin), case.source.origin.file, line)
        if errors:
            kind = wrong[0].rule if wrong else FAILURE if case.failure else "open"
            yield Test(*about, "failure", {"type": kind, "message": "; ".join(errors)}, text)
        else:
            yield Test(*about, "system-out" if text else "", text=text or None)


def _test(origin: Origin, name: str, tag: str, members: Mapping[str, str], text: str | None = None) -> Test:
    return Test(name, str(origin), origin.file, origin.line, tag, members, text)


def _xml(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)


def sarif(report: Report) -> str:
    """Return the log: one run, a result for each finding and failure, a notification for what is not judged or read."""
    found = [each for case in report.decided for each in entries(case)]
    used = list(dict.fromkeys(each.rule for each in found))
    results = [
        {
            "ruleId": each.rule,
            "level": each.level,
            "message": {"text": one_line(each.text)},
            "locations": [_location(each)],
            "ruleIndex": used.index(each.rule),
        }
        for each in found
    ]
    notified = [Entry(each.origin, "error", str(each)) for each in report.unreadable]
    notified += [Entry(each.origin, each.level, str(each)) for each in report.others]
    notifications = [
        {"level": each.level, "message": {"text": one_line(each.text)}, "locations": [_location(each)]}
        for each in notified
    ]
    run = {
        "tool": {"driver": {"name": "Muster", "rules": list(map(_rule, used))}},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": not report.unreadable, "toolExecutionNotifications": notifications}],
        "results": results,
    }
    return jsons.dump({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}) + "\n"


def _location(entry: Entry) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": {"uri": _uri(entry.origin.file)}}
    if entry.spot is not None:
        physical["region"] = {"startLine": entry.spot.line, "startColumn": entry.spot.column}
    elif entry.origin.line:
        physical["region"] = {"startLine": entry.origin.line, **({} if entry.name else {"startColumn": 1})}
    logical = {"logicalLocations": [{"fullyQualifiedName": one_line(entry.name)}]} if entry.name else {}
    return {"physicalLocation": physical, **logical}


def _uri(file: str) -> str:
    """Return a URI reference: relative for a relative path, which readers resolve from the root of the repository."""
    path = Path(file)
    return path.as_uri() if path.is_absolute() else urllib.parse.quote(path.as_posix().encode(errors="surrogateescape"))


def _rule(rule_id: str) -> dict[str, object]:
    found = catalogue.find(rule_id)
    if found is None:
        return {"id": rule_id}
    rule, why = found[0], one_line(found[0].why)
    texts = (why, "", "For example:", "", rule.wrong, *(("", "Instead:", "", rule.right) if rule.right else ()), "")
    source = f"Source: {one_line(rule.source)}\nThe same in a terminal: muster rule {rule_id}"
    return {
        "id": rule_id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": why},
        "help": {"text": "\n".join((*texts, source))},
    }


def github(report: Report) -> str:
    """Return one command for each finding and failure, and for what is not judged or cannot be read."""
    found = [each for case in report.decided for each in entries(case)]
    found += [Entry(each.origin, each.level, str(each)) for each in report.others if each.what]
    broken = [Entry(each.origin, "error", str(each)) for each in report.unreadable]
    ignored = unjudged.counted(each for each in report.others if not each.what)
    commands = [*map(_command, found), *(_written("notice", {}, text) for text in ignored), *map(_command, broken)]
    return "".join(f"{each}\n" for each in commands)


def _command(entry: Entry) -> str:
    members = {"file": entry.origin.file}
    line = entry.spot.line if entry.spot is not None else entry.origin.line
    members |= {"line": str(line)} if line else {}
    members |= {"col": str(entry.spot.column)} if entry.spot is not None else {}
    members |= {"title": entry.rule} if entry.rule not in ("", FAILURE) else {}
    return _written(_LEVELS[entry.level], members, entry.text)


def _written(level: str, members: Mapping[str, str], text: str) -> str:
    given = ",".join(f"{name}={_escaped(value, _PROPERTY)}" for name, value in members.items())
    return f"::{level}{' ' if given else ''}{given}::{_escaped(one_line(text), _DATA)}"


def _escaped(text: Iterable[str], escapes: Mapping[str, str]) -> str:
    return "".join(escapes.get(each, each) for each in text)
