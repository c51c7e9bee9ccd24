"""`muster test`: runs a platform team's own cases, and shows where a decision is not the expected one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from muster.webhook import kubeyaml
from muster.webhook.cli import ci_formats, problems, terminal
from muster.webhook.cli.policy_tests import case_files, verdicts
from muster.webhook.cli.policy_tests.case_files import FaultError
from muster.webhook.cli.policy_tests.verdicts import Trial
from muster.webhook.cli.problems import CommandError
from muster.webhook.cli.terminal import Difference
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]

_MARKS = {"passed": "ok", "failed": "FAIL", "updated": "new", "error": "ERROR"}


def run(args: argparse.Namespace) -> int:
    """Run the cases in the folders that are named; see `commandline.json` for the arguments."""
    roots = [Path(each) for each in args.paths]
    if not roots:
        raise CommandError("name the folder of a case, or one with cases in it; see `muster test --help`")
    try:
        found = case_files.find(roots)
    except FaultError as error:
        raise CommandError(str(error)) from error
    if not found:
        problems.say(f"there is nothing to test: no folder here has a {case_files.JOB} or an {case_files.EXPECTATION}")
        return problems.NOTHING
    tried = [verdicts.run(each, roots, update=args.update) for each in found]
    _tell(tried, args)
    problems.warn(f"muster: {problems.one_line(fault)}" for each in tried for fault in each.faults)
    problems.warn([_summary(tried)])
    results = {each.result for each in tried}
    if "error" in results:
        return problems.UNREADABLE
    return problems.FOUND if "failed" in results else problems.CLEAN


def _tell(tried: Sequence[Trial], args: argparse.Namespace) -> None:
    if args.output == "json":
        print(jsons.dump(problems.versioned("test", map(_object, tried))))
    elif args.output == "junit":
        sys.stdout.write(ci_formats.suite("muster test", [*map(_junit, tried)]))
    else:
        for each in tried:
            _show(each, args.color)


def _show(trial: Trial, color: str) -> None:
    print(problems.clean(f"{_MARKS[trial.result]:<6}{trial.folder}"))
    if trial.result == "failed":
        terminal.show_diffs([_difference(trial)], color)
    if trial.result == "failed" and trial.failure:
        print(problems.one_line(trial.failure))


def _summary(tried: Sequence[Trial]) -> str:
    counts = Counter[str](each.result for each in tried)
    words = (("passed", "passed"), ("failed", "failed"), ("updated", "updated"), ("error", "could not be tried"))
    told = ", ".join(f"{counts[result]} {word}" for result, word in words if counts[result])
    return f"{problems.plural(len(tried), 'case')}: {told}"


def _difference(trial: Trial) -> Difference:
    """Return what was expected and what was decided, as two texts to compare."""
    name = str(trial.folder / case_files.EXPECTATION)
    if trial.comparison is None:
        return Difference(name, "", "", "expected", "decided")
    expected, decided = (kubeyaml.dump(each) if each else "" for each in trial.comparison)
    return Difference(name, expected, decided, "expected", "decided")


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


def _junit(trial: Trial) -> ci_formats.Test:
    """Return a failure with the diff, or an error for unusable files."""
    about = (trial.folder.name or ".", str(trial.folder.parent), str(trial.folder / case_files.EXPECTATION), 0)
    if trial.result == "failed":
        lines = [*terminal.diff_lines(_difference(trial)), *([trial.failure] if trial.failure else [])]
        members = {"type": "decision", "message": "the decision is not as expected"}
        return ci_formats.Test(*about, "failure", members, "\n".join(lines))
    if trial.result == "error":
        text = "\n".join(map(str, trial.faults))
        return ci_formats.Test(*about, "error", {"type": "unreadable", "message": text.partition("\n")[0]}, text)
    return ci_formats.Test(*about)
