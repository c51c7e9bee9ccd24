"""`make fuzz`: runs many cases on all cores, or one case again.

    python -m tests.fuzz                                 10^6 cases of seed 1, on two processes
    python -m tests.fuzz --seed 7 --first 5000 --count 1000
    python -m tests.fuzz --case build/fuzz/0123456789ab.json [--shrink]

Each way to fail is told once, with the command that runs its case again. Its case is written into build/fuzz, and
summary.json beside it says how many cases failed in which way.
"""

from __future__ import annotations

import argparse
import collections
import json
import multiprocessing
import sys
import time
from concurrent import futures

from tests.fuzz import batches, cases, invariants, services, shrinking, trials

_BATCH = 200


def main(argv=None):
    """Run; 1 when an invariant was broken."""
    asked = _parsed(argv)
    if asked.case:
        return _again(asked)
    began, found, done = time.monotonic(), {}, collections.Counter()
    parts = [(asked.seed, first, min(first + _BATCH, asked.first + asked.count)) for first in _starts(asked)]
    context = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(asked.processes, context, max_tasks_per_child=100) as pool:
        for counts, faults in pool.map(batches.batch, parts):
            done.update(counts)
            for signature, example in faults.items():
                if signature not in found:
                    found[signature] = {**example, "cases": 0}
                    _tell(signature, example)
                found[signature]["cases"] += example["cases"]
            if asked.every and done["cases"] % asked.every < _BATCH:
                _progress(done, found, began)
    _progress(done, found, began)
    summary = {
        "seed": asked.seed,
        "first": asked.first,
        **done,
        "seconds": round(time.monotonic() - began),
        "faults": found,
    }
    batches.BUILD.mkdir(parents=True, exist_ok=True)
    (batches.BUILD / "summary.json").write_text(json.dumps(summary, indent=1))
    return 1 if found else 0


def _parsed(argv):
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", default="1", help="of all cases (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=1_000_000, help="of cases (default: 1000000)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: 2)")
    parser.add_argument(
        "--every", type=int, default=20_000, help="cases between two lines of progress (default: 20000)"
    )
    parser.add_argument("--case", help="run this file again and say what it breaks")
    parser.add_argument("--shrink", action="store_true", help="with --case: make it smaller first")
    return parser.parse_args(argv)


def _starts(asked):
    return range(asked.first, asked.first + asked.count, _BATCH)


def _tell(signature, example):
    print(f"{signature}\n    {example['fault'][:300]}\n    python -m tests.fuzz --case {example['file']}", flush=True)


def _progress(done, found, began):
    seconds = time.monotonic() - began
    rate = done["cases"] / seconds
    print(
        f"fuzz: {done['cases']} cases, {done['requests']} requests, {rate:.0f} cases a second, {len(found)} faults",
        flush=True,
    )


def _again(asked):
    case = cases.load(asked.case)
    with services.Service() as service:
        if asked.shrink:
            case = _shrunk(service, case)
        story = trials.run(service, case)
        faults = invariants.faults(story)
        told = service.told()
    faults += [
        ("no_planted_secret_is_told", each)
        for secret in case.planted
        for each in invariants.told_faults(case, secret, told)
    ]
    for each in story.exchanges:
        print(f"{each.phase}: HTTP {each.status}, {each.seconds:.3f} s: {each.answer[:400].decode(errors='replace')}")
    print(*(f"{name}: {fault}" for name, fault in faults), sep="\n")
    return 1 if faults else 0


def _shrunk(service, case):
    wanted = {batches.signature_of(*each) for each in invariants.faults(trials.run(service, case))}

    def fails(candidate):
        return bool(
            wanted & {batches.signature_of(*each) for each in invariants.faults(trials.run(service, candidate))}
        )

    small = shrinking.shrink(case, fails)
    print(f"fuzz: {cases.save(small, batches.BUILD)}")
    return small


if __name__ == "__main__":
    sys.exit(main())
