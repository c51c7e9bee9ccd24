"""A person's laptop: trains through a Gateway with the real client, and prints the mean reward of each step.

It is run by the interpreter of `make sessions`, with the address of the Gateway and the base model as arguments and the
key in `TINKER_API_KEY`.
"""

from __future__ import annotations

import sys

import tinker
from tinker.lib import queue_state_logger

from muster.sessions.demo import loop

queue_state_logger.PAUSE_GRACE_PERIOD = 0  # what the client waits for is said at once, not after 15 minutes


def main(url: str, base: str) -> None:
    """Train as `make rl-demo` does."""
    with tinker.ServiceClient(base_url=url) as service:
        loop.train(service, base, lambda step: print(f"step {step.number}: {step.reward!r}", flush=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
