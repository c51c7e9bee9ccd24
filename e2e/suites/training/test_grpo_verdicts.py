"""Weights that are wrong end a GRPO job with a reason, which is told, also when the pods are gone."""

from __future__ import annotations

import pytest

from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.training import grpos, runs, verdicts

pytestmark = pytest.mark.thorough

IMAGES = ("trl", "rl")
_LONG = 500  # steps, of which most are never made
# Changes one byte of each version, from when it is written, until the training ends, which removes its files.
_HURT = """
import pathlib, time
folder, known = pathlib.Path({folder!r}), set()
end, hurt = time.monotonic() + 120, 0
while time.monotonic() < end and not (hurt and not list(folder.glob("run-*"))):
    for each in folder.glob("run-*/*/weights.bin"):
        try:
            with each.open("r+b") as file:
                file.seek(4096)
                before = file.read(1)
                if before and each.stat().st_ino not in known:
                    file.seek(4096)
                    file.write(bytes([before[0] ^ 1]))
                    known.add(each.stat().st_ino)
                    hurt += 1
        except FileNotFoundError:
            pass
print("hurt", hurt)
"""


def test_a_planted_weight_file_ends_the_job_with_a_reason(
    space: Space, kubectl: Kubectl, keeper: Spare, models: None
) -> None:
    name = runs.start(space, grpos.runtime(space), grpos.job(space, steps=_LONG))
    grpos.stepped(space, 2)

    printed = runs.python(space, "trl", "vandal", _HURT.format(folder=grpos.folder(space)))

    assert not printed.endswith("hurt 0\n"), printed
    (rank,) = runs.ended(space, name, "Failed")
    assert rank.code == runs.GUARDED, rank
    report, reason = rank.message.splitlines()
    assert "the sampler did not take run-" in reason
    verdicts.told(space, kubectl, name, "weights-refused", "its sampler refused the weights that it was sent")
    differences = grpos.logged(rank.log, grpos.DIFFERENCE)
    assert max(differences) < grpos.EXACT, "no step was trained on what the wrong weights gave"
    assert '"verdict":"weights-refused"' in report


def test_a_sampler_that_serves_other_weights_ends_the_job_with_a_reason(
    space: Space, kubectl: Kubectl, keeper: Spare, models: None
) -> None:
    """A bound below what rounding makes stands for other weights: nothing else makes a sampler serve them."""
    made = grpos.runtime(space, MUSTER_WEIGHTS_BOUND="1e-9", MUSTER_WEIGHTS_PATIENCE="2")
    name = runs.start(space, made, grpos.job(space))

    (rank,) = runs.ended(space, name, "Failed")

    assert rank.code == runs.GUARDED, rank
    assert "the sampler serves other weights than are trained" in rank.message
    assert len(grpos.logged(rank.log, "reward")) <= 2
    verdicts.told(space, kubectl, name, "weights-differ", "its sampler served other weights than were trained")
