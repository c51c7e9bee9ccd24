"""`make record`: what two versions of Muster answer differently to one input of thousands of jobs.

    python -m tests.record BASE [--seeds 20000]     this checkout beside the commit BASE, by kind of difference

The input is that of BASE: its corpus, manifests and examples, the cases of `../shared/cases`, and reviews that its
fuzzer draws. Exit code 1 when an answer differs. The answers of BASE are kept under
build/record and used again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.record import differences

_ROOT = Path(__file__).parents[2]
_BUILD = _ROOT / "build" / "record"
_HERE = Path(__file__).parent
_OTHERS = [each for each in (_ROOT.parent / "shared" / "cases",) if each.is_dir()]


def main() -> int:
    """Make what is missing, compare, print; 1 when an answer differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.record", description=__doc__)
    parser.add_argument("base", help="the commit with whose answers this checkout is compared")
    parser.add_argument("--seeds", type=int, default=20_000, help="reviews that the fuzzer draws; 20,000 by default")
    options = parser.parse_args()
    commit = _git("rev-parse", "--short=12", f"{options.base}^{{commit}}")
    base, name = _BUILD / f"{commit}-tree", f"{commit}-{options.seeds}"
    inputs, before, after = _BUILD / f"{name}-inputs", _BUILD / f"{name}.jsonl", _BUILD / f"{name}-here.jsonl"
    if not base.exists():
        _git("worktree", "add", "--detach", "--force", str(base), commit)
    if not inputs.exists():
        _make_inputs(base, inputs, options.seeds)
    if not before.exists():
        _answer(base, inputs, before)
    _answer(_ROOT, inputs, after)
    found = differences.compare(before, after)
    print(*differences.lines(found), sep="\n")
    print(f"{len(found)} kinds of differences beside {commit}")
    return 1 if found else 0


def _git(*words: str) -> str:
    command = ["git", *words]
    return subprocess.run(command, cwd=_ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout.strip()


def _make_inputs(base: Path, inputs: Path, seeds: int) -> None:
    program = _HERE / "inputs.py"
    made = inputs.with_suffix(".new")
    shutil.rmtree(made, ignore_errors=True)
    subprocess.run([sys.executable, program, made, str(seeds), *_OTHERS], cwd=base, env=_of(base), check=True)
    made.rename(inputs)


def _answer(checkout: Path, inputs: Path, target: Path) -> None:
    made = target.with_suffix(".new")
    with made.open("wb") as out:
        command = [sys.executable, _HERE / "answers.py", inputs, str(os.cpu_count() or 1)]
        subprocess.run(command, cwd=checkout, env=_of(checkout), stdout=out, check=True)
    made.rename(target)


def _of(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout)}


if __name__ == "__main__":
    sys.exit(main())
