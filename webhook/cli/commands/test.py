"""`muster test`: runs a platform team's own cases, and shows where a decision is not the expected one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from muster.webhook.cli import diffs, problems, wording
from muster.webhook.cli.goldens import folders, reports, trials
from muster.webhook.cli.goldens.forms import FaultError
from muster.webhook.cli.goldens.trials import Trial
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]

_MARKS = {"passed": "ok", "failed": "FAIL", "updated": "new", "error": "ERROR"}


def run(args: argparse.Namespace) -> int:
    """Run the cases in the folders that are named; see `commandline.json` for the arguments."""
    roots = [Path(each) for each in args.paths]
    if not roots:
        raise CommandError("name the folder of a case, or one with cases in it; see `muster test --help`")
    try:
        found = folders.find(roots)
    except FaultError as error:
        raise CommandError(str(error)) from error
    if not found:
        problems.say(f"there is nothing to test: no folder here has a {folders.JOB} or an {folders.EXPECTED}")
        return problems.NOTHING
    tried = [trials.run(each, roots, update=args.update) for each in found]
    _tell(tried, args)
    wording.warn(f"muster: {problems.one_line(fault)}" for each in tried for fault in each.faults)
    wording.warn([_summary(tried)])
    results = {each.result for each in tried}
    if "error" in results:
        return problems.UNREADABLE
    return problems.FOUND if "failed" in results else problems.CLEAN


def _tell(tried: Sequence[Trial], args: argparse.Namespace) -> None:
    if args.output == "json":
        print(jsons.dump(reports.shown(tried)))
    elif args.output == "junit":
        sys.stdout.write(reports.junit(tried))
    else:
        for each in tried:
            _show(each, args.color)


def _show(trial: Trial, color: str) -> None:
    print(problems.clean(f"{_MARKS[trial.result]:<6}{trial.folder}"))
    if trial.result == "failed":
        diffs.show([reports.difference(trial)], color)
    if trial.result == "failed" and trial.failure:
        print(problems.one_line(trial.failure))


def _summary(tried: Sequence[Trial]) -> str:
    counts = Counter[str](each.result for each in tried)
    words = (("passed", "passed"), ("failed", "failed"), ("updated", "updated"), ("error", "could not be tried"))
    told = ", ".join(f"{counts[result]} {word}" for result, word in words if counts[result])
    return f"{wording.plural(len(tried), 'case')}: {told}"
