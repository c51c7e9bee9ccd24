"""`muster test`: runs a platform team's own cases, and shows where a decision is not the expected one."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import Struct

from muster.audit.record_schema import BOOKKEEPING
from muster.strategies.changes.changes import Change
from muster.strategies.documents import decoding, names
from muster.strategies.documents.paths import Absent
from muster.webhook import kubeyaml
from muster.webhook.cli import case_files, cases, ci_formats, findings_report, gathering, problems, terminal
from muster.webhook.cli.case_files import Fault, FaultError
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cli.problems import CommandError
from muster.webhook.cli.terminal import Difference
from muster.webhook.kubeyaml import jsons, sources
from muster.webhook.kubeyaml.sources import Source

__all__ = ["Comparison", "Result", "Trial", "compare", "run", "shown"]


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
    tried = [_run(each, roots, update=args.update) for each in found]
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


def _object(trial: Trial) -> _Entry:
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


_Entry: TypeAlias = Mapping[str, Any]
"""What was decided, or a part of it, of JSON's types."""
_PATCH = ("op", "path", "value", "rule")
_FINDING = ("severity", "rule", "field")
_MEMORY = f"/metadata/annotations/{names.APPLIED_ANNOTATION.replace('/', '~1')}"


class Comparison(NamedTuple):
    """Two objects of JSON's types that are equal where a case is as expected."""

    expected: _Entry
    decided: _Entry

    @property
    def is_equal(self) -> bool:
        """Whether the case is as expected."""
        return jsons.dump(self.expected) == jsons.dump(self.decided)


def shown(case: Case) -> _Entry:
    """Return what was decided, in the form of expected.yaml and with a few members more."""
    changes = case.mutated.changes if case.mutated.verdict == "patched" else ()
    return {
        "decision": _decision(case),
        "framework": case.mutated.governor.framework,
        "mode": case.mutated.mode.value,
        "patch": [
            {
                "op": each.op,
                "path": each.field,
                "pointer": each.path,
                **({} if isinstance(each.after, Absent) else {"value": each.after}),
                "rule": each.rule,
            }
            for each in changes
            if not _is_memory(each)
        ],
        "findings": findings_report.findings(case),
    }


def compare(expected: _Entry | None, found: _Entry) -> Comparison:
    """Compare an expectation with a result of `decided`; None compares nothing and shows what is worth writing down."""
    if expected is None:
        return Comparison({}, _worth(found))
    shown = {key: found[key] for key in expected}
    if "patch" in expected:
        shown["patch"] = [entry for _, entry in _worded(expected["patch"], found["patch"], _PATCH)]
    if "findings" in expected:
        entries = _worded(expected["findings"], found["findings"], _FINDING)
        shown["findings"] = [entry for _, entry in sorted(entries, key=lambda each: each[0])]
    return Comparison(expected, shown)


def _decision(case: Case) -> str:
    if case.failure:
        return "error"  # whatever the failure mode makes of it: who expects a refusal does not mean this one
    return "denied" if case.refused else case.mutated.verdict


def _is_memory(change: Change) -> bool:
    """Whether a change writes or gives back nothing but Muster's own annotation."""
    is_alone = decoding.mapping(change.after).keys() == {names.APPLIED_ANNOTATION}
    return change.rule in BOOKKEEPING or is_alone or change.path == _MEMORY


def _worth(found: _Entry) -> _Entry:
    out = {"decision": found["decision"]}
    if found["decision"] == "patched":
        out["patch"] = [_short(each, _PATCH) for each in found["patch"]]
    return {**out, "findings": [_short(each, _FINDING) for each in found["findings"]]}


def _worded(expected: Sequence[_Entry], found: Sequence[_Entry], keys: tuple[str, ...]) -> list[tuple[int, _Entry]]:
    """Return what was found, each entry as its expectation words it, with the place of that; the last place for none.

    An expectation that says more chooses first.
    """
    chosen: dict[int, int] = {}
    for place in sorted(range(len(expected)), key=lambda each: -len(expected[each])):
        free = (number for number, each in enumerate(found) if number not in chosen and _agrees(expected[place], each))
        number = next(free, None)
        if number is not None:
            chosen[number] = place
    return [
        (chosen[number], expected[chosen[number]]) if number in chosen else (len(expected), _short(each, keys))
        for number, each in enumerate(found)
    ]


def _short(entry: _Entry, keys: tuple[str, ...]) -> _Entry:
    return {key: entry[key] for key in keys if key in entry}


def _agrees(expected: _Entry, found: _Entry) -> bool:
    """Whether a change or a finding is as expected; of a message a part is enough, and a path may be a pointer."""
    for key, value in expected.items():
        if key == "message":
            right = value in found[key]
        elif key == "path":
            right = value in (found[key], found["pointer"])
        else:  # as JSON, for which True is not 1
            right = key in found and value == found[key] and jsons.dump(value) == jsons.dump(found[key])
        if not right:
            return False
    return True


Result = Literal["passed", "failed", "updated", "error"]


class Trial(Struct, frozen=True):
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


def _run(folder: Path, roots: Sequence[Path], *, update: bool = False) -> Trial:
    """Try one case.

    Args:
        folder: of the case.
        roots: the folders that were named, for settings of several cases.
        update: whether to write what was decided where it is not what is expected.
    """
    try:
        expected = _expected(folder / case_files.EXPECTATION, may_miss=update)
        case = _case(folder, case_files.settings(folder, roots))
    except FaultError as error:
        return Trial(folder, "error", faults=error.faults)
    except CommandError as error:
        return Trial(folder, "error", faults=[Fault(str(folder), 0, 0, line) for line in str(error).splitlines()])
    comparison = compare(expected, shown(case))
    if comparison.is_equal and expected is not None:
        return Trial(folder, "passed", comparison, case.failure)
    if update:
        _write(folder / case_files.EXPECTATION, comparison.decided)
        return Trial(folder, "updated", comparison, case.failure)
    return Trial(folder, "failed", comparison, case.failure)


def _expected(path: Path, *, may_miss: bool) -> _Entry | None:
    if not path.exists() and may_miss:
        return None
    if not path.exists():
        raise FaultError(Fault(str(path), 0, 0, "does not exist; write it, or let `muster test --update` write it"))
    found = case_files.read_form(path, case_files.EXPECTED)
    if not found and not may_miss:
        said = "expects nothing; write `decision`, or let `muster test --update` write all"
        raise FaultError(Fault(str(path), 0, 0, said))
    return found or None


def _case(folder: Path, settings: case_files.Settings) -> Case:
    """Decide about the job of a case.

    Raises:
        FaultError: a file cannot be read, or has not one job.
        CommandError: the configuration or the runtimes cannot be used.
    """
    job, before = _only_job(folder / case_files.JOB), folder / case_files.OLD
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


def _write(path: Path, value: _Entry) -> None:
    """Write an expectation, behind the comment with which the file begins."""
    head = []
    if path.exists():
        for line in path.read_text(encoding="utf-8-sig").splitlines():
            if line and not line.startswith("#"):
                break
            head.append(line)
    path.write_text("".join(f"{line}\n" for line in head) + kubeyaml.dump(value), encoding="utf-8")
