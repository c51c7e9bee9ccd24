"""`muster check`: reports errors in the jobs of files, for people, programs and CI.

Mutation comes first, as in the cluster: what Muster would correct is not an error. Unreadable parts of the input are
reported together with the findings.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Iterable, Iterator, Sequence

from msgspec import structs

from muster.strategies.plugins.registry import Registry
from muster.webhook.cli import cases, explanations, problems, unjudged
from muster.webhook.cli.cases import Selection
from muster.webhook.cli.findings_report import Report
from muster.webhook.cli.problems import CommandError, one_line, warn

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Check what is named; see `commandline.json` for the arguments."""
    if args.cluster:
        from muster.webhook.cli import cluster_checks  # noqa: PLC0415  # asyncio is only for those who have a cluster

        setup, found = cluster_checks.check(args)
    else:
        for option in ("kubeconfig", "context"):
            if getattr(args, option) is not None:
                raise CommandError(f"--{option}: is for a cluster; give --cluster too")
        setup = cases.prepare(args)
        found = [setup.decide(source) for source in setup.sources if cases.is_judged(source) or source.repeats]
    selection = _select(args.select, args.ignore, setup.policy.registry)
    decided = []
    for case in found:
        shown = structs.replace(case, selection=selection)
        if cases.is_job(case.source) or cases.is_search(case.source):
            decided.append(structs.replace(shown, ending=explanations.ending(shown, setup)))
        elif case.findings:
            decided.append(shown)
    report = Report(decided, unjudged.find(setup.sources, decided), setup, args.strict, args.strict_open)
    sys.stdout.write(_written(report, args.output))
    warn(f"muster: {one_line(each)}" for each in setup.unreadable)
    if args.output == "text":
        warn(f"muster: {one_line(f'{each.origin}: {each}')}" for each in report.others if each.what)
    warn([report.summary()])
    if args.output == "text" and sys.stderr.isatty() and any(case.findings for case in decided):
        warn(["`muster rule ID` explains the id at the end of a finding"])
    if report.code == problems.NOTHING:
        problems.say(
            "there is nothing to check: no TrainJob, JobSet, OptimizationJob or runtime is among the documents"
        )
        return problems.CLEAN if args.allow_empty else problems.NOTHING
    return report.code


def _written(report: Report, output: str) -> str:
    if output in ("text", "json"):
        return report.text() if output == "text" else report.json()
    from muster.webhook.cli import ci_formats  # noqa: PLC0415  # XML and the catalogue are only for those who want them

    return {"junit": ci_formats.junit, "sarif": ci_formats.sarif, "github": ci_formats.github}[output](report)


def _select(selected: Sequence[str], ignored: Sequence[str], registry: Registry) -> Selection:
    """Return the selection that `--select` and `--ignore` ask for.

    Args:
        selected: values of `--select`, each with ids and groups between commas.
        ignored: values of `--ignore`, in the same form.
        registry: the strategies; one that does not come with Muster may report any rule in the group of its framework.

    Raises:
        CommandError: there is no such rule or group.
    """
    return Selection(
        frozenset(_known("--select", selected, registry)), frozenset(_known("--ignore", ignored, registry))
    )


def _known(option: str, values: Sequence[str], registry: Registry) -> Iterator[str]:
    if not values:
        return
    from muster.webhook import catalogue  # noqa: PLC0415  # takes as long to read as a job, and few ask for rules

    groups = {each.partition("/")[0] for each in catalogue.load()}
    foreign = {each.strategy.framework for each in registry} - groups
    for name in (each.strip() for value in values for each in value.split(",")):
        if name in groups or name.partition("/")[0] in foreign or catalogue.find(name) is not None:
            yield name
        else:
            raise CommandError(
                one_line(f"{option}: {name[:100]!r} is no rule or group of rules; {_meant(name, groups)}")
            )


def _meant(name: str, groups: Iterable[str]) -> str:
    from muster.webhook import catalogue  # noqa: PLC0415  # as above

    near = catalogue.closest(name) if "/" in name else difflib.get_close_matches(name[:100], list(groups), 3)
    return f"did you mean {' or '.join(near[:3])}?" if near else "`muster rule` lists them"
