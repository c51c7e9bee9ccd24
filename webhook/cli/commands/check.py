"""`muster check`: reports errors in the jobs of files, for people, programs and CI.

Mutation comes first, as in the cluster: what Muster would correct is not an error. Unreadable parts of the input are
reported together with the findings.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from muster.strategies.documents import loose
from muster.strategies.documents.findings import Severity
from muster.webhook.cli import cases, envelopes, explanations, problems, selections, unjudged, wording
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cli.problems import CommandError
from muster.webhook.cli.unjudged import Unjudged
from muster.webhook.kubeyaml import jsons
from muster.webhook.kubeyaml.sources import Unreadable

__all__ = ["run"]


def run(args: argparse.Namespace) -> int:
    """Check what is named; see `commandline.json` for the arguments."""
    if args.cluster:
        from muster.webhook.cli import clusters  # noqa: PLC0415  # asyncio is only for those who have a cluster

        setup, found = clusters.check(args)
    else:
        _refuse_cluster_options(args)
        setup = cases.prepare(args)
        found = [setup.decide(source) for source in setup.sources if cases.is_judged(source) or source.repeats]
    selection = selections.select(args.select, args.ignore, setup.policy.registry)
    decided = [_ended(dataclasses.replace(case, selection=selection), setup) for case in _worth_showing(found)]
    others = unjudged.find(setup.sources, decided)
    sys.stdout.write(_report(decided, others, setup, args))
    wording.warn(f"muster: {problems.one_line(each)}" for each in setup.unreadable)
    if args.output == "text":
        wording.warn(f"muster: {problems.one_line(f'{each.origin}: {each}')}" for each in others if each.what)
    wording.warn([_summary(decided, others, setup)])
    if args.output == "text" and sys.stderr.isatty() and any(case.findings for case in decided):
        wording.warn(["`muster rule ID` explains the id at the end of a finding"])
    return _code(decided, others, setup, args)


def _ended(case: Case, setup: Setup) -> Case:
    return dataclasses.replace(case, ending=explanations.ending(case, setup)) if cases.is_job(case.source) else case


def _report(decided: Sequence[Case], others: Sequence[Unjudged], setup: Setup, args: argparse.Namespace) -> str:
    if args.output == "json":
        shown = [*map(_object, decided), *map(_unjudged, others), *map(_unreadable, setup.unreadable)]
        return jsons.dump(envelopes.listed("check", shown)) + "\n"
    if args.output == "junit":
        from muster.webhook.cli import junits  # noqa: PLC0415  # the XML library is only for those who want XML

        return junits.report(decided, others, setup.unreadable, strict=args.strict, strict_open=args.strict_open)
    if args.output == "sarif":
        from muster.webhook.cli import sarifs  # noqa: PLC0415  # so is the catalogue of rules

        return jsons.dump(sarifs.report(decided, others, setup.unreadable)) + "\n"
    if args.output == "github":
        from muster.webhook.cli import githubs  # noqa: PLC0415  # as above

        lines = githubs.lines(decided, others, setup.unreadable)
    else:
        lines = (line for case in decided for line in wording.lines(case))
    return "".join(f"{line}\n" for line in lines)


def _code(decided: Sequence[Case], others: Sequence[Unjudged], setup: Setup, args: argparse.Namespace) -> int:
    if setup.unreadable:
        return problems.UNREADABLE
    if not any(map(cases.is_judged, setup.sources)):
        problems.say("there is nothing to check: no TrainJob, JobSet or runtime is among the documents")
        return problems.CLEAN if args.allow_empty else problems.NOTHING
    fails = any(case.fails(strict=args.strict, strict_open=args.strict_open) for case in decided)
    return problems.FOUND if fails or (args.strict and any(each.trains for each in others)) else problems.CLEAN


def _worth_showing(found: Iterable[Case]) -> Iterator[Case]:
    """Yield the cases of the jobs, and those of the runtimes with findings."""
    return (case for case in found if cases.is_job(case.source) or case.findings)


def _refuse_cluster_options(args: argparse.Namespace) -> None:
    for option in ("kubeconfig", "context"):
        if getattr(args, option) is not None:
            raise CommandError(f"--{option}: is for a cluster; give --cluster too")


def _summary(decided: Sequence[Case], others: Sequence[Unjudged], setup: Setup) -> str:
    errors = sum(len(case.errors) + bool(case.failure) for case in decided)
    found = [each.severity for case in decided for each in case.findings]
    warnings, notes = found.count(Severity.WARNING), found.count(Severity.NOTE)
    jobs = sum(map(cases.is_job, setup.sources))
    checked = sum(map(cases.is_judged, setup.sources)) - jobs
    unread = sum(cases.is_job(each.source) for each in others)
    jobs -= unread
    text = f"{wording.plural(jobs, 'job')}: {wording.plural(errors, 'error')}, {wording.plural(warnings, 'warning')}"
    text += f", {wording.plural(notes, 'note')}" if notes else ""
    text += f"; {wording.plural(checked, 'other document')} checked" if checked else ""
    text += "".join(f"; {told}" for told in unjudged.counted(others))
    ended = sum(case.is_open for case in decided) - unread
    text += f"; {wording.plural(ended, 'job')} end{'s' if ended == 1 else ''} as open" if ended > 0 else ""
    hidden = sum(len(case.all_findings) - len(case.findings) for case in decided)
    text += f"; {wording.plural(hidden, 'finding')} not selected" if hidden else ""
    if setup.unreadable:
        text += f"; {len(setup.unreadable)} could not be read"
    return text


def _object(case: Case) -> dict[str, Any]:
    origin, name = case.source.origin, loose.member(case.source.document, "metadata").get("name")
    return {
        "file": origin.file,
        "document": origin.document,
        "item": origin.item or None,
        "line": origin.line or None,
        "apiVersion": case.source.document["apiVersion"],
        "kind": case.source.kind,
        "namespace": case.namespace,
        "name": name,
        "framework": case.mutated.governor.framework,
        "mode": case.mutated.mode.value,
        "refused": case.refused,
        "failure": case.failure or None,
        "ending": case.ending or None,
        "findings": wording.findings(case),
    }


def _unjudged(each: Unjudged) -> dict[str, Any]:
    origin, document = each.origin, each.source.document
    metadata = document.get("metadata")
    return {
        "file": origin.file,
        "document": origin.document,
        "item": origin.item or None,
        "line": origin.line or None,
        "apiVersion": document["apiVersion"],
        "kind": each.source.kind,
        "name": metadata.get("name") if isinstance(metadata, dict) else None,
        "notJudged": problems.one_line(each),
        "trains": each.trains,
        "findings": [],
    }


def _unreadable(each: Unreadable) -> dict[str, Any]:
    origin = each.origin
    return {
        "file": origin.file,
        "document": origin.document or None,
        "item": origin.item or None,
        "line": origin.line or None,
        "unreadable": each.message,
    }
