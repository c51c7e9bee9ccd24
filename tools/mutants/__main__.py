"""Plant faults in folders of the product and say how many of them the unit tier notices.

Ends with 1 where fewer are noticed than `--aim` says, and with 2 where the tests fail without any fault.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.mutants import judgements, measures, mutations, reach, reports, samples, trials
from tools.mutants.mutations import Mutant
from tools.mutants.reports import Judged
from tools.mutants.trials import Outcome, Trial

_ROOT = Path(__file__).parents[2]
_BUILD = Path("build", "mutants")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, draw, try and report; return the exit code."""
    asked = _parsed(argv)
    root, build = asked.root, asked.root / _BUILD
    sources = sorted({folder.partition("/")[0] for folder in asked.folders})
    try:
        if not asked.reuse:
            measures.measure(root, build / "measured", sources, asked.tests.split(), asked.workers)
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
    todo = [Trial(mutant, reached.of(mutant)) for mutant in strata]
    _control(root, todo, measured, asked.workers)
    known, out = judgements.load(judgements.PLACE), []
    began = time.monotonic()
    for result in trials.run(root, build / "trials", todo, measured.seconds, asked.workers):
        difference = result.mutant.difference((root / result.mutant.file).read_bytes())
        out.append(Judged(strata[result.mutant], result, difference, judgements.why(known, difference)))
        _say(out, len(todo), began)
    return sorted(out, key=lambda each: (each.result.mutant.file, each.result.mutant.lines))


def _control(root: Path, todo: Sequence[Trial], measured: measures.Measurement, workers: int) -> None:
    """See that a trial of nothing kills nothing.

    Raises:
        MeasurementError: it did.
    """
    by_file = {trial.mutant.file: trial for trial in todo}
    sound = [_unplanted(trial) for trial in list(by_file.values())[:: max(1, len(by_file) // 6)]]
    for result in trials.run(root, root / _BUILD / "control", sound, measured.seconds, workers):
        if result.outcome is not Outcome.SURVIVED:
            raise measures.MeasurementError(f"{result.by or result.mutant.file} fails in a trial without any fault.")


def _unplanted(trial: Trial) -> Trial:
    mutant = dataclasses.replace(trial.mutant, span=(0, 0), text="")
    return Trial(mutant, reach.Selection(trial.selection.first, ()))


def _say(done: Sequence[Judged], total: int, began: float) -> None:
    last = done[-1].result
    where = f"{last.mutant.file}:{last.mutant.lines[0]}"
    seconds = time.monotonic() - began
    print(f"{len(done)}/{total} {seconds:.0f} s {last.outcome.value}: {where} {last.mutant.kind}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
