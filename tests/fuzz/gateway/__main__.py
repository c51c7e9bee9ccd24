"""`python -m tests.fuzz.gateway`: attacks a Gateway with hostile HTTP, with the interpreter of `make sessions`.

python -m tests.fuzz.gateway                          3,000 cases of seed 1
python -m tests.fuzz.gateway --seed 7 --first 100 --count 1
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz.gateway.worlds import World, drawn

_BESIDE = 6  # cases at a time
_BATCH = 60


def main(argv=None):
    """Run; 1 when something was found."""
    asked = _parsed(argv)
    began, found = time.monotonic(), collections.Counter()
    with tempfile.TemporaryDirectory() as folder, World(Path(folder)) as world:
        for first in range(asked.first, asked.first + asked.count, _BATCH):
            numbers = range(first, min(first + _BATCH, asked.first + asked.count))
            for number, faults in asyncio.run(attacked(world, asked.seed, numbers)):
                for each in faults:
                    _tell(found, f"{asked.seed}/{number}: {each}", each)
            for each in world.state():
                _tell(found, f"after {numbers.stop} cases: {each}", each)
        for each in world.settled():
            _tell(found, each, each)
        statuses = dict(sorted(world.statuses.items()))
        kinds = collections.Counter(
            drawn(asked.seed, number)[0].__name__ for number in range(asked.first, asked.first + asked.count)
        )
    print(
        f"fuzz: {asked.count} cases of seed {asked.seed} in {time.monotonic() - began:.0f} s, {len(found)} ways to fail"
    )
    print(f"fuzz: answers by status {statuses}; {len(world.accepted)} requests accepted")
    print(f"fuzz: cases {dict(sorted(kinds.items()))}")
    return 1 if found else 0


async def attacked(world, seed, numbers):
    """Run cases, some at a time, and return their faults."""
    free = asyncio.Semaphore(_BESIDE)

    async def one(number):
        async with free:
            return number, await world.attack(seed, number)

    return await asyncio.gather(*map(one, numbers))


def _tell(found, told, signature):
    found[signature[:60]] += 1
    if found[signature[:60]] <= 3:
        print(told[:2500], flush=True)


def _parsed(argv):
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz.gateway", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", default="1", help="of all cases (default: 1)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case (default: 0)")
    parser.add_argument("--count", type=int, default=3000, help="of cases (default: 3000)")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
