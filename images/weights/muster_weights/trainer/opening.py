"""How the trainer's side begins, and how it ends a training."""

from __future__ import annotations

import multiprocessing
from typing import NoReturn

from muster_guard import endings, trainings
from muster_weights.trainer.settings import settings
from muster_weights.trainer.syncs import Sync

__all__ = ["begin", "end", "newest", "opened", "refuse", "say"]

_REFUSED, _DIFFER = "weights-refused", "weights-differ"  # as `muster.webhook.controllers.guards` knows them
_open: list[Sync] = []


def opened(url: str) -> Sync:
    """Return the way to a sampler, with its lease taken.

    Raises:
        Away: it did not answer, or another trainer held it, until the deadline.
        Refused: a variable has a value that it cannot have, or the sampler takes no weights by files.
    """
    made = Sync(url, settings(), refuse)
    begin(made)
    return made


def begin(made: Sync) -> None:
    """Take the lease for a way to a sampler; raises as `opened`."""
    made.open()
    _open.append(made)


def refuse(reason: str) -> NoReturn:
    """End the training as `end` does, because the sampler refused what it was sent."""
    end(reason, _REFUSED)


def end(reason: str, verdict: str = _DIFFER) -> NoReturn:
    """End the training with the guard's exit code and the reason as termination message; nothing is left behind.

    Args:
        reason: for people.
        verdict: the same in a word, for programs.
    """
    for each in _open:
        each.close()
    for child in multiprocessing.active_children():
        child.kill()  # such as TRL's worker, which would go on generating for nobody
    trainings.fail(reason if reason.startswith("muster:") else f"muster: {reason}", verdict)


def say(text: str) -> None:
    """Print a line to the log."""
    endings.say(f"muster: {text}")


def newest() -> Sync | None:
    """Return the way to the sampler; None in a rank that does not speak with it."""
    return _open[-1] if _open else None
