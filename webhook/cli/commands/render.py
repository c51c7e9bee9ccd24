"""`muster render`: shows documents as the cluster would store them, or what would be changed in them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.strategies.documents import decoding
from muster.strategies.trainer import predictions
from muster.webhook import kubeyaml
from muster.webhook.cli import cases, findings_report, problems, terminal
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.kubeyaml import jsons

__all__ = ["run"]

_ANNOTATION = "muster.dev/predicted"


class _Output(Struct, frozen=True):
    """One document of the output; `case` is None for one that is not a job."""

    document: Mapping[str, object]
    case: Case | None


def run(args: argparse.Namespace) -> int:
    """Render what is named; see `commandline.json` for the arguments."""
    setup = cases.prepare(args)
    setup.require_readable()
    outputs = list(_outputs(setup, with_jobsets=args.jobset))
    if args.output == "diff":
        terminal.show_diffs([_difference(output.case) for output in outputs if output.case is not None], args.color)
    else:
        sys.stdout.write({"yaml": _yaml, "json": _json, "patch": _patches}[args.output](outputs))
    decided = [output.case for output in outputs if output.case is not None]
    for case in decided:
        problems.warn(findings_report.lines(case))
    refused = any(case.refused or case.failure for case in decided)
    return problems.FOUND if refused else problems.CLEAN


def _outputs(setup: Setup, *, with_jobsets: bool) -> Iterator[_Output]:
    for source in setup.sources:
        if not cases.is_job(source):
            yield _Output(source.document, None)
            continue
        case = setup.decide(source)
        yield _Output(case.document, case)
        following = cases.follow(case, setup) if with_jobsets else None
        if following is not None:
            yield _Output(_marked(following), following)


def _marked(case: Case) -> Mapping[str, object]:
    """Mark a predicted document as one that is not in a cluster, for readers behind a pipe."""
    metadata = decoding.member(case.document, "metadata")
    annotations = {**decoding.member(metadata, "annotations"), _ANNOTATION: _trainer(case)}
    return {**case.document, "metadata": {**metadata, "annotations": annotations}}


def _trainer(case: Case) -> str:
    return predictions.made_by(case.mutated.governor.runtime)


def _yaml(outputs: Sequence[_Output]) -> str:
    return "---\n".join(_comment(output) + kubeyaml.dump(output.document) for output in outputs)


def _comment(output: _Output) -> str:
    case = output.case
    if case is None or not case.predicted:
        return ""
    lines = [
        f"Predicted, not for kubectl apply: the JobSet that {_trainer(case)} would make of the TrainJob above,",
        "after Muster.",
        *(f"Note: {note}." for note in case.notes),
    ]
    return "".join(f"# {problems.one_line(line)}\n" for line in lines)


def _json(outputs: Sequence[_Output]) -> str:
    return jsons.dump([output.document for output in outputs]) + "\n"


def _patches(outputs: Sequence[_Output]) -> str:
    lines = [jsons.dump(_patch(output.case), indent=None) for output in outputs if output.case is not None]
    return "".join(f"{line}\n" for line in lines)


def _patch(case: Case) -> dict[str, object]:
    document, origin = case.source.document, case.source.origin
    name = decoding.member(document, "metadata").get("name")
    patched = case.mutated.verdict == "patched"
    return {
        "schema": problems.schema("patch"),
        "object": {
            "file": origin.file,
            "document": origin.document,
            **({"item": origin.item} if origin.item else {}),
            "apiVersion": document["apiVersion"],
            "kind": document["kind"],
            "namespace": case.namespace,
            "name": name,
            **({"predicted": _trainer(case)} if case.predicted else {}),
        },
        "patch": case.mutated.changes.patch() if patched else [],
    }


def _difference(case: Case) -> terminal.Difference:
    before, after = kubeyaml.dump(case.source.document), kubeyaml.dump(case.document)
    return terminal.Difference(case.place, before, after)
