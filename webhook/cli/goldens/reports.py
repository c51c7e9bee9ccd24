"""Reports: the results of a test for programs, as JSON and as JUnit XML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any
from xml.etree import ElementTree as Xml  # only used for writing; nothing is parsed

from muster.webhook.cli import diffs, envelopes, junits
from muster.webhook.cli.diffs import Difference
from muster.webhook.cli.goldens import folders
from muster.webhook.cli.goldens.trials import Trial
from muster.webhook.kubeyaml import emitters

__all__ = ["difference", "junit", "shown"]

_NAME = "muster test"


def difference(trial: Trial) -> Difference:
    """Return what was expected and what was decided, as two texts to compare."""
    name = str(trial.folder / folders.EXPECTED)
    if trial.comparison is None:
        return Difference(name, "", "", "expected", "decided")
    expected, decided = (emitters.dump(each) if each else "" for each in trial.comparison)
    return Difference(name, expected, decided, "expected", "decided")


def shown(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """Return the results for JSON."""
    return envelopes.listed("test", map(_object, trials))


def junit(trials: Sequence[Trial]) -> str:
    """Return the results as XML: one test case for each case, a failure with the diff, an error for unusable files."""
    count = Counter(each.result for each in trials)
    counts = {"tests": str(len(trials)), "failures": str(count["failed"]), "errors": str(count["error"])}
    root = Xml.Element("testsuites", {"name": _NAME, **counts})
    suite = Xml.SubElement(root, "testsuite", {"name": _NAME, **counts})
    for each in trials:
        _add(suite, each)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=False) + "\n"


def _object(trial: Trial) -> dict[str, Any]:
    comparison = trial.comparison
    return {
        "case": str(trial.folder),
        "result": trial.result,
        "expected": comparison.expected if comparison else None,
        "decided": comparison.decided if comparison else None,
        "failure": trial.failure or None,
        "faults": [each._asdict() for each in trial.faults],
    }


def _add(suite: Xml.Element, trial: Trial) -> None:
    file = str(trial.folder / folders.EXPECTED)
    names = {"name": junits.text(trial.folder.name or "."), "classname": junits.text(str(trial.folder.parent))}
    test = Xml.SubElement(suite, "testcase", {**names, "file": junits.text(file)})
    if trial.result == "failed":
        failure = Xml.SubElement(test, "failure", {"type": "decision", "message": "the decision is not as expected"})
        lines = [*diffs.lines(difference(trial)), *([trial.failure] if trial.failure else [])]
        failure.text = junits.text("\n".join(lines))
    elif trial.result == "error":
        told = junits.text("\n".join(map(str, trial.faults)))
        Xml.SubElement(test, "error", {"type": "unreadable", "message": told.partition("\n")[0]}).text = told
