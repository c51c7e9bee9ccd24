"""Writes what Muster says to drawn cases, to compare two versions of it: equal files mean equal answers and records.

    python -m tests.fuzz.answers --count 2000 > new
    cd ANOTHER_CHECKOUT && PYTHONPATH=. python CHECKOUT/tests/fuzz/answers.py --count 2000 > old
    cmp old new

One line for each exchange: the case, the phase, the status, and the hashes of the answer and of its audit records
without what differs each time (moment, latency, place in the chain). `--whole NUMBER` prints one case in full.
"""

from __future__ import annotations

import argparse
import hashlib
import sys

import orjson

from tests.fuzz import drawing, services, trials

_MOVING = ("time", "latencyMicroseconds", "seq", "prev", "hash", "dropped")


def main(argv=None):
    """Print one line for each exchange."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seed", default="answers", help="of all cases (default: answers)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=1000, help="of cases (default: 1000)")
    parser.add_argument("--whole", type=int, help="print this case in full")
    asked = parser.parse_args(argv)
    numbers = range(asked.first, asked.first + asked.count) if asked.whole is None else (asked.whole,)
    with services.Service(patience=600.0, forks=False) as service:
        for number in numbers:
            for each in trials.run(service, drawing.draw(asked.seed, number)).exchanges:
                told = each.answer, _records(each)
                shown = told if asked.whole is not None else [hashlib.sha256(part).hexdigest()[:16] for part in told]
                print(number, each.phase, each.status, each.raised, *each.spoilt, *shown)


def _records(exchange):
    records = [orjson.loads(line) for line in exchange.lines]
    kept = [{key: value for key, value in record.items() if key not in _MOVING} for record in records]
    return orjson.dumps(kept, option=orjson.OPT_SORT_KEYS)


if __name__ == "__main__":
    sys.exit(main())
