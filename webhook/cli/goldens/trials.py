"""Trials: one case decided, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from muster.webhook import kubeyaml
from muster.webhook.cli import cases, gathering
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cli.goldens import comparisons, folders, forms
from muster.webhook.cli.goldens.comparisons import Comparison
from muster.webhook.cli.goldens.forms import Fault, FaultError
from muster.webhook.cli.problems import CommandError
from muster.webhook.kubeyaml import sources
from muster.webhook.kubeyaml.sources import Source

__all__ = ["Result", "Trial", "run"]

Result = Literal["passed", "failed", "updated", "error"]


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one case.

    Attributes:
        folder: of the case.
        result: whether the decision is the expected one; `error`: the case could not be tried.
        comparison: what was expected and what was decided, None after an error.
        failure: why Muster could not decide about the job, "" when it could.
        faults: what is wrong with the files.
    """

    folder: Path
    result: Result
    comparison: Comparison | None = None
    failure: str = ""
    faults: Sequence[Fault] = ()


def run(folder: Path, roots: Sequence[Path], *, update: bool = False) -> Trial:
    """Try one case.

    Args:
        folder: of the case.
        roots: the folders that were named, for settings of several cases.
        update: whether to write what was decided where it is not what is expected.
    """
    try:
        expected = _expected(folder / folders.EXPECTED, may_miss=update)
        case = _decided(folder, folders.settings(folder, roots))
    except FaultError as error:
        return Trial(folder, "error", faults=error.faults)
    except CommandError as error:
        return Trial(folder, "error", faults=[Fault(str(folder), 0, 0, line) for line in str(error).splitlines()])
    comparison = comparisons.compare(expected, comparisons.decided(case))
    if comparison.is_equal and expected is not None:
        return Trial(folder, "passed", comparison, case.failure)
    if update:
        _write(folder / folders.EXPECTED, comparison.decided)
        return Trial(folder, "updated", comparison, case.failure)
    return Trial(folder, "failed", comparison, case.failure)


def _expected(path: Path, *, may_miss: bool) -> Mapping[str, Any] | None:
    if not path.exists() and may_miss:
        return None
    if not path.exists():
        raise FaultError(Fault(str(path), 0, 0, "does not exist; write it, or let `muster test --update` write it"))
    found = forms.read(path, forms.EXPECTED)
    if not found and not may_miss:
        said = "expects nothing; write `decision`, or let `muster test --update` write all"
        raise FaultError(Fault(str(path), 0, 0, said))
    return found or None


def _decided(folder: Path, settings: folders.Settings) -> Case:
    """Decide about the job of a case.

    Raises:
        FaultError: a file cannot be read, or has not one job.
        CommandError: the configuration or the runtimes cannot be used.
    """
    job, before = _only_job(folder / folders.JOB), folder / folders.OLD
    old = _only_job(before)[0] if before.exists() else None
    objects = _sources(*settings.objects) if settings.objects else []
    given = [*job[1], *objects]
    cluster = gathering.gather(given, settings.runtimes, namespace=settings.namespace)
    if cluster.unreadable:
        raise FaultError(*(_fault(each) for each in cluster.unreadable))
    setup = Setup(given, [], cluster, cases.policy(settings.config), settings.namespace)
    return setup.decide(job[0], old=old.document if old else None)


def _only_job(path: Path) -> tuple[Source, list[Source]]:
    """Return the job of a file, and all of its documents."""
    found = _sources(str(path))
    jobs = [each for each in found if cases.is_job(each)]
    if len(jobs) == 1:
        return jobs[0], found
    what = f"holds {len(jobs)} of them" if jobs else "holds none"
    hint = "give each a folder of its own, and what else is in the cluster to `objects` of case.yaml"
    raise FaultError(Fault(str(path), 0, 0, f"must hold one TrainJob or JobSet and {what}{f'; {hint}' * bool(jobs)}"))


def _sources(*names: str) -> list[Source]:
    found = sources.read(names)
    if found.unreadable:
        raise FaultError(*(_fault(each) for each in found.unreadable))
    return found.sources


def _fault(each: sources.Unreadable) -> Fault:
    return Fault(each.origin.file, each.origin.line, 1, each.message)


def _write(path: Path, value: Mapping[str, Any]) -> None:
    """Write an expectation, behind the comment with which the file begins."""
    head = []
    if path.exists():
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            if line and not line.startswith("#"):
                break
            head.append(line)
    path.write_text("".join(f"{line}\n" for line in head) + kubeyaml.dump(value), encoding="utf-8")
