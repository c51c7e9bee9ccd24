"""`muster migrate`: writes jobs of old operators and of older Trainers for the Trainer of today, and checks them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from msgspec import Struct

from muster.webhook import kubeyaml
from muster.webhook.cli import cases, findings_report, migrations, problems, terminal
from muster.webhook.cli.cases import Case
from muster.webhook.cli.migrations import Migrated
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import jsons, sources
from muster.webhook.kubeyaml.sources import Input, Source

__all__ = ["run"]


class _Output(Struct, frozen=True):
    """What became of one document: `migrated` is None for one that stays, `failure` says why one has no TrainJob."""

    source: Source
    migrated: Migrated | None = None
    failure: str = ""

    @property
    def title(self) -> str:
        """`PyTorchJob/mnist`."""
        return problems.one_line(self.source.title)

    @property
    def text(self) -> str:
        """The YAML that stands for the document."""
        if self.failure:
            return f"# {self.title} of {problems.one_line(self.source.origin)} was not migrated: {self.failure}\n"
        if self.migrated is None:
            return self.source.text or kubeyaml.dump(self.source.document)
        return migrations.text(self.migrated, f"{self.title} ({self.source.origin})")

    @property
    def documents(self) -> Sequence[object]:
        """The documents that stand for it."""
        return [] if self.failure else [self.source.document] if self.migrated is None else self.migrated.documents


def run(args: argparse.Namespace) -> int:
    """Migrate what is named; see `commandline.json` for the arguments."""
    found = cases.read(args)
    outputs = list(_outputs(found))
    checked = _checked(args, outputs)
    _show(args, outputs, checked)
    for each in outputs:
        problems.warn(_lines(each))
    for case in checked:
        problems.warn(findings_report.lines(case))
    problems.warn(f"muster: {problems.one_line(each)}" for each in found.unreadable)
    problems.warn([_summary(outputs, found)])
    if found.unreadable or any(each.failure for each in outputs):
        return problems.UNREADABLE
    if not any(each.migrated for each in outputs):
        problems.say(
            "there is nothing to migrate: no job of an old operator or of an older Trainer is among the documents"
        )
        return problems.NOTHING
    lost = any(each.migrated and each.migrated.lost for each in outputs)
    return problems.FOUND if lost or any(case.fails() for case in checked) else problems.CLEAN


def _outputs(found: Input) -> Iterator[_Output]:
    numbers, referred = migrations.numbers(each.document for each in found.sources)
    for source in found.sources:
        try:
            yield _Output(source, migrations.migrate(source.document, numbers, referred))
        except migrations.Unmigrated as error:
            yield _Output(source, failure=problems.one_line(error))


def _checked(args: argparse.Namespace, outputs: Sequence[_Output]) -> list[Case]:
    """Check what was made together with all documents of the output; jobs of one name are checked apart."""
    migrated = [each for each in outputs if each.migrated is not None]
    together = "---\n".join(each.text for each in outputs if each.documents)
    try:
        return _cases(args, "migrated", together, [made for each in migrated for made in each.documents])
    except CommandError:
        apart = [_cases(args, str(each.source.origin), each.text, each.documents) for each in migrated]
        return [case for found in apart for case in found]


def _cases(args: argparse.Namespace, name: str, text: str, made: Sequence[object]) -> list[Case]:
    setup = cases.setup(args, sources.read_text(name, text))
    return [setup.decide(each) for each in setup.sources if cases.is_judged(each) and each.document in made]


def _show(args: argparse.Namespace, outputs: Sequence[_Output], checked: Sequence[Case]) -> None:
    if args.output == "json":
        items = [_object(each, checked) for each in outputs if each.failure or each.migrated]
        sys.stdout.write(jsons.dump(problems.versioned("migrate", items)) + "\n")
    elif args.output == "diff":
        shown = [
            terminal.Difference(f"{each.source.origin} {each.title}", kubeyaml.dump(each.source.document), each.text)
            for each in outputs
            if each.migrated is not None
        ]
        terminal.show_diffs(shown, args.color)
    else:
        sys.stdout.write("---\n".join(each.text for each in outputs))


def _object(output: _Output, checked: Sequence[Case]) -> dict[str, object]:
    origin, notes = output.source.origin, output.migrated.notes if output.migrated else []
    return {
        "file": origin.file,
        "document": origin.document,
        "item": origin.item or None,
        "line": origin.line or None,
        "from": output.title,
        "failure": output.failure or None,
        "documents": list(output.documents),
        "findings": [
            {name: value for name, value in each.items() if name not in ("line", "column")}
            for case in checked
            if case.source.document in output.documents
            for each in findings_report.findings(case)
        ],
        "notes": [{"fate": each.fate, "member": each.member, "text": each.text} for each in notes],
    }


def _lines(output: _Output) -> Iterator[str]:
    place = f"{output.source.origin}: "
    if output.failure:
        yield problems.one_line(f"{place}error: {output.title} was not migrated: {output.failure}")
    for note in output.migrated.notes if output.migrated else ():
        word = "no equivalent" if note.fate == "lost" else "changed"
        yield problems.one_line(f"{place}{word}: {output.title} {note.member}: {note.text}")


def _summary(outputs: Sequence[_Output], found: Input) -> str:
    migrated = [each.migrated for each in outputs if each.migrated]
    text = f"{problems.plural(len(migrated), 'document')} migrated"
    for count, what in (
        (sum(len(each.lost) for each in migrated), "without equivalent"),
        (sum(len(each.notes) - len(each.lost) for each in migrated), "changed in meaning"),
    ):
        text += f"; {problems.plural(count, 'member')} {what}" if count else ""
    stayed = sum(not each.failure and each.migrated is None for each in outputs)
    text += f"; {problems.plural(stayed, 'other document')} unchanged" if stayed else ""
    failed = sum(bool(each.failure) for each in outputs)
    text += f"; {failed} not migrated" if failed else ""
    return text + (f"; {len(found.unreadable)} could not be read" if found.unreadable else "")
