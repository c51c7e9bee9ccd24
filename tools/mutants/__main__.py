"""Plant faults in folders of the product and say how many of them the unit tier notices.

Ends with 1 where fewer are noticed than `--aim` says, and with 2 where the tests fail without any fault.
"""

from __future__ import annotations

import argparse
import dataclasses
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.mutants import journals, judgements, measures, mutations, reach, reports, samples, trials
from tools.mutants.mutations import Mutant
from tools.mutants.reports import Judged
from tools.mutants.trials import Outcome, Result, Trial

_ROOT = Path(__file__).parents[2]
_CONTROL = 20  # tests of each trial without a fault
_BUILD = Path("build", "mutants")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, draw, try and report; return the exit code."""
    asked = _parsed(argv)
    root, build = asked.root, asked.root / _BUILD
    sources = sorted({folder.partition("/")[0] for folder in asked.folders})
    try:
        if not asked.reuse:
            measures.measure(root, build / "measured", sources, shlex.split(asked.tests), asked.workers)
        measured = measures.load(root, build / "measured")
        strata = {folder: list(_mutants(root, folder)) for folder in asked.folders}
        print(
            *(f"mutants: {node} failed without any fault and is left out" for node in sorted(measured.failed)), sep="\n"
        )
        drawn = samples.draw(strata, asked.count, asked.seed)
        judged = _tried(drawn, measured, asked)
    except measures.MeasurementError as error:
        print(f"mutants: {error}", file=sys.stderr)
        return 2
    reports.as_json(judged, build / "results.json")
    print(*reports.lines(judged, {folder: len(found) for folder, found in strata.items()}), sep="\n")
    return 0 if reports.share(judged) * 100 >= asked.aim else 1


def _parsed(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("folders", nargs="+", help="folders of the product, from each of which mutants are drawn")
    parser.add_argument("--count", type=int, default=420, help="of mutants (default: 420)")
    parser.add_argument("--seed", type=int, default=14, help="of the sample (default: 14)")
    parser.add_argument("--workers", type=int, default=2, help="processes at a time (default: 2)")
    parser.add_argument("--aim", type=float, default=95.0, help="percent that must be noticed (default: 95)")
    parser.add_argument("--tests", default="tests", help="arguments of pytest which say what the unit tier is")
    parser.add_argument(
        "--reuse", action="store_true", help="take the last measurements; tests that are new are unknown to them"
    )
    parser.add_argument("--again", action="store_true", help="try only what the last run left or did not come to")
    parser.add_argument("--root", type=_folder, default=_ROOT, help="of the repository (default: this one)")
    parser.add_argument("--only", default="", help="of the sample, try only mutants whose FILE:LINE contains this")
    return parser.parse_args(argv)


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _mutants(root: Path, folder: str) -> Iterator[Mutant]:
    for file in sorted((root / folder).rglob("*.py")):
        yield from mutations.mutants(file.relative_to(root).as_posix(), file.read_bytes())


def _tried(drawn: dict[str, list[Mutant]], measured: measures.Measurement, asked: argparse.Namespace) -> list[Judged]:
    root, build = asked.root, asked.root / _BUILD
    trials.preload(root, [*root.glob("tests/**/*.py"), *map(root.joinpath, measured.lines)])
    reached = reach.Reach(root, measured)
    strata = {
        mutant: folder
        for folder, mutants in drawn.items()
        for mutant in mutants
        if asked.only in f"{mutant.file}:{mutant.lines[0]}"
    }
    journal = build / "journal.jsonl"
    if not asked.again:
        journal.unlink(missing_ok=True)
    results = {mutant: result for mutant, result in journals.read(journal).items() if result.outcome in reports.NOTICED}
    todo = [Trial(mutant, reached.of(mutant)) for mutant in strata if mutant not in results]
    _control(root, todo, measured, asked.workers)
    began = time.monotonic()
    for number, result in enumerate(trials.run(root, build / "trials", todo, measured, asked.workers), 1):
        journals.note(journal, result)
        results[result.mutant] = result
        _say(result, f"{number}/{len(todo)} {time.monotonic() - began:.0f} s")
    known = judgements.load(judgements.PLACE)
    judged = [_judged(root, folder, results[mutant], known) for mutant, folder in strata.items()]
    return sorted(judged, key=lambda each: (each.result.mutant.file, each.result.mutant.lines))


def _judged(root: Path, folder: str, result: Result, known: judgements.Known) -> Judged:
    difference = result.mutant.difference((root / result.mutant.file).read_bytes())
    return Judged(folder, result, difference, judgements.why(known, difference))


def _control(root: Path, todo: Sequence[Trial], measured: measures.Measurement, workers: int) -> None:
    """See that a trial of nothing kills nothing.

    Raises:
        MeasurementError: it did.
    """
    by_file = {trial.mutant.file: trial for trial in todo}
    sound = [_unplanted(trial) for trial in list(by_file.values())[:: max(1, len(by_file) // 6)]]
    for result in trials.run(root, root / _BUILD / "control", sound, measured, workers):
        if result.outcome is not Outcome.SURVIVED:
            raise measures.MeasurementError(f"{result.by or result.mutant.file} fails in a trial without any fault.")


def _unplanted(trial: Trial) -> Trial:
    mutant = dataclasses.replace(trial.mutant, span=(0, 0), text="")
    return Trial(mutant, reach.Selection(trial.selection.first[:_CONTROL], ()))


def _say(result: Result, how_far: str) -> None:
    mutant = result.mutant
    print(f"{how_far} {result.outcome.value}: {mutant.file}:{mutant.lines[0]} {mutant.kind}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
