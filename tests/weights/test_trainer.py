"""What the trainer's side reads from its environment, and when it ends a training."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from muster_weights.refusals import Refused
from muster_weights.trainer import settings, verdicts

IMAGES = Path(__file__).parents[2] / "images"
FOLDER = {"MUSTER_WEIGHTS_FOLDER": "/shared/weights"}


def test_only_the_folder_must_be_said():
    found = settings.settings(FOLDER)
    assert (str(found.folder), found.deadline, found.lease, found.keep) == ("/shared/weights", 600, 60, 2)
    assert (found.bound, found.patience) == (None, 3)


def test_each_setting_is_read():
    said = {"DEADLINE": "30", "LEASE": "5", "KEEP": "4", "BOUND": "0.2", "PATIENCE": "1"}
    found = settings.settings(FOLDER | {f"MUSTER_WEIGHTS_{name}": value for name, value in said.items()})
    assert (found.deadline, found.lease, found.keep, found.bound, found.patience) == (30, 5, 4, 0.2, 1)


@pytest.mark.parametrize(
    ("name", "value"),
    [("LEASE", "0"), ("LEASE", "soon"), ("DEADLINE", "nan"), ("KEEP", "1"), ("BOUND", "-1"), ("PATIENCE", "inf")],
)
def test_a_value_that_cannot_be_is_refused_with_its_name(name, value):
    with pytest.raises(Refused, match=f"MUSTER_WEIGHTS_{name}: '{value}' is not a number of"):
        settings.settings(FOLDER | {f"MUSTER_WEIGHTS_{name}": value})


@pytest.mark.parametrize("folder", ["", "weights", "./weights"])
def test_a_folder_that_depends_on_where_the_process_stands_is_refused(folder):
    with pytest.raises(Refused, match="is not an absolute path"):
        settings.settings({"MUSTER_WEIGHTS_FOLDER": folder})


def test_only_a_difference_that_stays_too_large_is_a_verdict():
    watch = verdicts.Watch("it", 0.1, 3)
    assert [watch.seen(value) for value in (0.2, 0.2, 0.1, 0.2, 0.2)] == [None] * 5
    assert "it was over 0.1 3 times in a row" in watch.seen(float("nan"))


def test_types_of_fewer_digits_have_a_larger_bound():
    assert verdicts.bound_of("float32") < verdicts.bound_of("bfloat16") < 0.06


@pytest.mark.parametrize(("environment", "hooked"), [({}, False), (FOLDER, True)])
def test_nothing_is_hooked_without_a_folder_and_nothing_large_is_imported(environment, hooked):
    program = (
        "import sys; import muster_weights.trainer.start;"
        "print(any(type(each).__name__ == 'Watcher' for each in sys.meta_path));"
        "print([name for name in ('torch', 'json', 'requests', 'typing') if name in sys.modules])"
    )
    path = os.pathsep.join(str(IMAGES / each) for each in ("weights", "guard"))
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", f"import sys; sys.path[:0] = {path.split(os.pathsep)!r}; {program}"],
        env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str(hooked), "[]"]
