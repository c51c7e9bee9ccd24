"""`make fuzz`: runs many cases on all cores, or one case again.

    python -m tests.fuzz                                 10^6 cases of seed 1, on two processes
    python -m tests.fuzz --seed 7 --first 5000 --count 1000
    python -m tests.fuzz --case build/fuzz/0123456789ab.json [--shrink]
    python -m tests.fuzz --case 7/5003                   the same, by seed and number
    python -m tests.fuzz --part webhook --count 5000     attacks on the sockets of the service, 1,000 to a process
    python -m tests.fuzz --part pages --count 2000       the same for the pages of the audit log
    python -m tests.fuzz --part webhook --processes 1    one attack at a time, of which the processor time is asked too

A count keeps a journal in build/fuzz, by commit and seed: it can be stopped (it ends with its batch) or killed, and the
same command goes on where it was. Each way to fail is told once, with the command that runs its case again. Its case is
written into build/fuzz, and summary.json beside it says how many cases failed in which way.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import re
import signal
import sys
import time
from concurrent import futures
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tests.fuzz import batches, cases, drawing, invariants, journals, services, shrinking, trials
from tests.fuzz.wire import runs as sockets

BATCH = 200
_ROOT = Path(__file__).parents[2]
_STOPPED = 130
_ENDING = (signal.SIGINT, signal.SIGTERM)


def main(argv=None):
    """Run; 1 when an invariant was broken, 130 when it was stopped."""
    asked = _parsed(argv)
    if asked.part != "reviews":
        return sockets.main(asked.part, asked.seed, asked.first, asked.count, alone=asked.processes == 1)
    if asked.case:
        return _again(asked)
    journal = journals.Journal(batches.BUILD, journals.version_of(_ROOT), asked.seed)
    count = _Count(asked, journal)
    try:
        stopped = _run(asked, journal, count)
    except BrokenProcessPool:
        stopped = "a process ended by itself, in a case of the first batch that the journal lacks"
    count.tell()
    count.summarise()
    if stopped:
        print(f"fuzz: {stopped}; the same command goes on", flush=True)
        return _STOPPED
    return 1 if count.found else 0


def _run(asked, journal, count):
    """Run what the journal lacks; return why there is still something to run, or ""."""
    end = asked.first + asked.count
    parts = [(asked.seed, *each) for each in journal.missing(asked.first, end, BATCH)]
    with _signals() as got, contextlib.closing(_results(asked.processes, parts)) as results:
        for (_, first, last), (counts, faults) in zip(parts, results, strict=True):
            batch = {"first": first, "end": last, **counts, "faults": faults}
            journal.note(batch)
            count.add(batch)
            if got:
                return "stopped"
    return ""


def _results(processes, parts):
    """Yield what each batch brought, in order."""
    if processes == 1:
        yield from map(batches.batch, parts)
        return
    pool = futures.ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), batches.begin)
    try:
        yield from pool.map(batches.batch, parts)
    finally:
        pool.shutdown(cancel_futures=True)


class _Count:
    """What a run counts, and what it says about that."""

    def __init__(self, asked, journal):
        self.found = {}
        self._asked, self._journal = asked, journal
        self._began, self._cases, self._processor = time.monotonic(), 0, 0.0
        self._note(journal.faults())

    def add(self, batch):
        """Count a batch."""
        before = self._cases // self._asked.every
        self._cases += batch["cases"]
        self._processor += batch["processor"]
        self._note(batch["faults"])
        if self._cases // self._asked.every > before:
            self.tell()

    def _note(self, faults):
        for signature, example in faults.items():
            if signature not in self.found:
                self.found[signature] = example
                print(
                    f"{signature}\n    {example['fault'][:300]}\n    python -m tests.fuzz --case {example['file']}",
                    flush=True,
                )

    def tell(self):
        """Print how far it is."""
        seconds = time.monotonic() - self._began
        each = 1000 * self._processor / self._cases if self._cases else 0.0
        print(
            f"fuzz: {self._cases} cases in {seconds:.0f} s, {self._cases / seconds:.0f} a second,"
            f" {each:.1f} ms of a core each; {self._through()} of {self._asked.count} cases of seed {self._asked.seed}"
            f" are through at {self._journal.path.parent.name}, {len(self.found)} ways to fail",
            flush=True,
        )

    def _through(self):
        first, end = self._asked.first, self._asked.first + self._asked.count
        return self._asked.count - sum(last - at for at, last in self._journal.missing(first, end, self._asked.count))

    def summarise(self):
        """Write what the journal holds."""
        counts = {name: round(value, 1) for name, value in self._journal.counts().items()}
        summary = {"commit": self._journal.path.parent.name, "seed": self._asked.seed, **counts}
        batches.BUILD.mkdir(parents=True, exist_ok=True)
        path = batches.BUILD / "summary.json"
        path.write_text(json.dumps({**summary, "faults": self._journal.faults()}, indent=1))


@contextlib.contextmanager
def _signals():
    """Note SIGINT and SIGTERM: Muster would take an exception within a case for a fault of a strategy."""
    got = []
    before = {each: signal.signal(each, lambda number, _: got.append(number)) for each in _ENDING}
    try:
        yield got
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def _parsed(argv):
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--part", choices=("reviews", *sockets.KINDS), default="reviews", help="what is attacked (default: reviews)"
    )
    parser.add_argument("--seed", default="1", help="of all cases (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=1_000_000, help="of cases (default: 1000000)")
    parser.add_argument("--processes", type=int, default=2, help="at a time (default: 2)")
    parser.add_argument(
        "--every", type=int, default=20_000, help="cases between two lines of progress (default: 20000)"
    )
    parser.add_argument("--case", help="run this file, or SEED/NUMBER, again and say what it breaks")
    parser.add_argument("--shrink", action="store_true", help="with --case: make it smaller first")
    return parser.parse_args(argv)


def _again(asked):
    case = _case(asked.case)
    with services.Service() as service:
        if asked.shrink:
            case = _shrunk(service, case)
        story, faults = batches.faults_of(service, case)
        faults += [each for _, each in invariants.page_faults(dict.fromkeys(case.planted, case), service.page())]
    for each in story.exchanges:
        print(f"{each.phase}: HTTP {each.status}, {each.seconds:.3f} s: {each.answer[:400].decode(errors='replace')}")
    print(*(f"{name}: {fault}" for name, fault in faults), sep="\n")
    return 1 if faults else 0


def _case(named):
    by_number = re.fullmatch(r"(.+)/([0-9]+)", named)
    return drawing.draw(by_number[1], int(by_number[2])) if by_number else cases.load(named)


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
    batches.settle()
    sys.exit(main())
