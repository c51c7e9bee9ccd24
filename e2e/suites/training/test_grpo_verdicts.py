"""Weights that are wrong end a GRPO job with a reason, which is told, also when the pods are gone."""

from __future__ import annotations

from typing import Any

import pytest

from e2e.suites.support import statuses, waits
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


def test_a_model_that_cannot_be_updated_on_cpus_is_never_trained_and_status_says_why(
    space: Space, kubectl: Kubectl, models: None
) -> None:
    """vLLM on CPUs keeps an old copy of tied embeddings, so that each version but the first would be served wrongly."""
    name = runs.start(space, grpos.runtime(space), grpos.job(space, model="llama"))

    def told() -> dict[str, Any]:
        story: dict[str, Any] = statuses.told(kubectl, name, "-n", space.name)
        assert story["why"]["code"] == "crashing", story["why"]
        return story

    story = waits.until("the sampler to be refused again and again", told, grpos.PATIENCE)
    assert story["phase"] == "Waiting"
    assert "weights by files: " in story["why"]["text"]
    assert "use an untied model, or a GPU" in story["why"]["text"]
    assert [each for each in space.pods() if "-node-" in each["metadata"]["name"]] == []
