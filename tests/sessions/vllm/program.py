"""`python -m tests.sessions.vllm.program BASE ACTIONS ANSWERS`: do what a test wrote down, where vLLM is installed.

Both files are pickles of lists. An action is the name of a method of `VllmSampler` and its arguments, or `came` and
requests, each with the turn of the sampler at which it comes.
"""

import pickle
import sys
from pathlib import Path

from muster.sessions.engines.vllm_sampler import VllmSampler
from muster.sessions.refusals import Refused


def came(sampler, arrivals):
    answers, turn = {}, 0
    while len(answers) < len(arrivals):
        for ticket, (when, request) in enumerate(arrivals):
            if when == turn:
                sampler.begin(ticket, request)
        answers.update(sampler.advance())
        turn += 1
    return list(answers.items())


def done(sampler, action, *args):
    try:
        return came(sampler, *args) if action == "came" else getattr(sampler, action)(*args)
    except Refused as refusal:
        return refusal


def main():
    base, actions, answers = map(Path, sys.argv[1:])
    sampler = VllmSampler(base, slots=2, rank=8)
    wanted = pickle.loads(actions.read_bytes())  # noqa: S301  # the test's own
    answers.write_bytes(pickle.dumps([done(sampler, *each) for each in wanted]))


if __name__ == "__main__":
    main()
