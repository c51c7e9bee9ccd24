"""What is seen of a training while it logs, and what is left at its end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from muster.webhook.controllers import guards
from muster_guard import endings, trainings
from muster_telemetry import callbacks, meters, syncs
from muster_telemetry.summaries import Summary
from tests.telemetry.rows import asynchronous, synchronous

IMAGES = Path(__file__).parents[2] / "images"


@pytest.fixture(autouse=True)
def apart(monkeypatch):
    """No test leaves anything at the guard, or at the end of this process."""
    monkeypatch.setattr(trainings, "added", {})
    monkeypatch.setattr(endings, "before", [])
    monkeypatch.setattr(callbacks.atexit, "register", lambda *_: None)
    monkeypatch.delenv("MUSTER_METRICS_PORT", raising=False)


class Clock:
    """Seconds that a test moves."""

    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def training(tmp_path):
    """A training that logs a row, as transformers does: the last row of its history is a copy of it."""
    sent, clock, rows = syncs.Syncs(), Clock(), []
    observer = callbacks.Observer(sent, clock)

    def log(row):
        logs = {key: value for key, value in row.items() if key != "step"}
        rows.append({**logs, "step": row["step"]})
        observer.logged(logs, rows, str(tmp_path / "output"))
        return logs

    plot = tmp_path / "output" / "muster-training.svg"
    return SimpleNamespace(observer=observer, syncs=sent, clock=clock, rows=rows, log=log, plot=plot)


def test_what_trl_does_not_log_is_added_for_all_that_read_its_logs(training):
    training.syncs.sent(None, 0.5)
    training.syncs.sent(None, 0.25)
    assert training.log(synchronous(1))["muster/weight_sync_s"] == 0.375
    training.clock.now = 2.0
    assert training.log(synchronous(2))["muster/tokens_per_second"] == 50.0
    assert training.rows[0]["muster/weight_sync_s"] == 0.375
    assert "muster/weight_sync_s" not in training.rows[1]


def test_what_trl_logs_itself_is_not_added(training):
    training.syncs.sent(None, 9.0)
    for step in (1, 2):
        assert not [key for key in training.log(asynchronous(step)) if key.startswith("muster/")]


def test_the_difference_that_a_probe_found_is_taken_where_trl_has_none(training):
    training.syncs.sent(SimpleNamespace(muster_probe=SimpleNamespace(last=2e-7)), 0.1)
    assert training.log(asynchronous(1))["muster/logp_difference"] == 2e-7
    assert "muster/logp_difference" not in training.log(synchronous(2))
    assert training.observer.summary.report()["difference"] == 1e-7


@pytest.mark.parametrize("reward", [None, "high", float("nan")])
def test_a_row_without_a_reward_says_nothing(training, reward):
    training.log(synchronous(1, reward=reward))
    assert training.observer.summary.report() is None
    training.observer.draw()
    assert not training.plot.exists()


def test_the_numbers_of_the_report_are_those_that_the_controller_reads(training):
    training.syncs.sent(None, 1 / 3)
    training.log(asynchronous(1, **{"sample/dropped_stale_total": 2.0}))
    training.log(asynchronous(2, **{"sample/dropped_stale_total": 1.0}))
    found = training.observer.summary.report()
    assert guards.sampling(found) == guards.Sampling(0.02, 1, 0.333333, None, 0.9999, 0.5, 3)
    assert guards.sampling(found).written() == found


def test_a_synchronous_training_says_nothing_of_samples_that_are_too_old(training):
    training.log(synchronous(1))
    assert training.observer.summary.report() == {"reward": 0.01, "difference": 1e-07, "ratio": 1.0}
    assert Summary(syncs.Syncs()).report() is None


def test_the_report_of_the_guard_and_the_plot_have_what_was_logged_also_where_it_ends_the_training(
    training, monkeypatch
):
    monkeypatch.setattr(endings.os, "_exit", lambda _: None)
    monkeypatch.setattr(endings, "_marks", lambda **_: [])
    monkeypatch.setenv("MUSTER_TERMINATION_LOG", str(training.plot.parent / "none"))
    training.observer.begin()
    training.log(synchronous(1))
    assert trainings.Training(1, 0).report()["sampling"]["reward"] == 0.01
    endings.fail("muster: it is over")
    assert "last 0.01" in training.plot.read_text()


def test_a_plot_that_is_there_already_is_not_written_again(training):
    training.log(synchronous(1))
    training.observer.draw()
    training.plot.unlink()
    training.observer.draw()
    assert not training.plot.exists()
    training.log(synchronous(2))
    training.observer.draw()
    assert training.plot.exists()


def test_a_folder_that_cannot_be_written_is_told_and_ends_nothing(training, capsys):
    training.plot.parent.write_text("a file where the folder should be")
    training.log(synchronous(1))
    training.observer.draw()
    assert "muster: the plot of this training cannot be written" in capsys.readouterr().err


def test_a_port_that_is_taken_is_told_and_ends_nothing(training, monkeypatch, capsys):
    other = meters.Meters(syncs.Syncs()).serve(0)
    try:
        monkeypatch.setenv("MUSTER_METRICS_PORT", str(other.server_port))
        training.observer.begin()
    finally:
        other.shutdown()
        other.server_close()
    assert "there are no metrics at port" in capsys.readouterr().err


class Callback:
    """Stands for transformers' TrainerCallback."""


@pytest.fixture
def trainer(tmp_path):
    """The callback as transformers makes and calls it."""
    module = SimpleNamespace(DEFAULT_CALLBACKS=[Callback], TrainerCallback=Callback)
    callbacks.watch(module)
    first, kind = module.DEFAULT_CALLBACKS
    assert first is Callback
    made, arguments = kind(), SimpleNamespace(output_dir=str(tmp_path))

    def log(row, *, zero=True):
        state = SimpleNamespace(is_world_process_zero=zero, log_history=[{**row}])
        made.on_log(arguments, state, None, logs=row, model=None)

    return SimpleNamespace(log=log, end=lambda: made.on_train_end(arguments, None, None), folder=tmp_path)


def test_one_rank_alone_observes_and_a_training_without_a_reward_is_not_observed(trainer):
    trainer.log(synchronous(1), zero=False)
    trainer.log({"loss": 0.5, "step": 1})
    trainer.end()
    assert trainings.added == {}
    assert list(trainer.folder.iterdir()) == []


def test_a_training_with_a_reward_is_observed_and_drawn_at_its_end(trainer):
    trainer.log(synchronous(1))
    trainer.log(synchronous(2))
    assert len(endings.before) == 1
    trainer.end()
    assert [each.name for each in trainer.folder.iterdir()] == ["muster-training.svg"]


class Generation:
    """Stands for TRL's VLLMGeneration."""

    def __init__(self, mode):
        self.mode = mode

    def sync_weights(self):
        return "sent"


@pytest.mark.parametrize(("mode", "count"), [("server", 1), ("colocate", 0)])
def test_a_sync_with_a_server_is_timed_and_one_without_is_not(monkeypatch, mode, count):
    monkeypatch.setattr(syncs, "current", syncs.Syncs())
    module = SimpleNamespace(VLLMGeneration=type("Timed", (Generation,), {}))
    syncs.watch_generation(module)
    assert module.VLLMGeneration(mode).sync_weights() == "sent"
    assert syncs.current.count == count


def test_a_sync_that_fails_is_not_counted(monkeypatch):
    def fail(_):
        raise ConnectionError

    monkeypatch.setattr(syncs, "current", syncs.Syncs())
    module = SimpleNamespace(AsyncGRPOTrainer=type("Failing", (), {"_sync_weight": fail}))
    syncs.watch_async_trainer(module)
    with pytest.raises(ConnectionError):
        module.AsyncGRPOTrainer()._sync_weight()
    assert syncs.current.count == 0


@pytest.mark.parametrize(("environment", "hooked"), [({}, True), ({"MUSTER_TELEMETRY": "off"}, False)])
def test_every_process_is_hooked_unless_it_is_switched_off_and_nothing_large_is_imported(environment, hooked):
    path = [str(IMAGES / each) for each in ("telemetry", "guard")]
    program = (
        f"import sys; sys.path[:0] = {path!r}; import muster_telemetry.start;"
        "print(any(type(each).__name__ == 'Watcher' for each in sys.meta_path));"
        "print([name for name in ('torch', 'json', 'prometheus_client', 'typing') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-E", "-c", program], env={**environment, "PATH": os.environ["PATH"]},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == [str(hooked), "[]"]


def test_two_watchers_of_one_module_are_both_called(monkeypatch, tmp_path):
    from muster_guard.watches import Watcher  # noqa: PLC0415  # as the images have it

    (tmp_path / "watched_twice.py").write_text("value = 1")
    monkeypatch.syspath_prepend(tmp_path)
    seen = []
    for name in ("first", "second"):
        watcher = Watcher({"watched_twice": lambda module, name=name: seen.append((name, module.value))})
        monkeypatch.setattr(sys, "meta_path", [watcher, *sys.meta_path])
    import watched_twice  # noqa: PLC0415  # made above

    assert sorted(seen) == [("first", 1), ("second", 1)]
    assert type(watched_twice.__loader__).__name__ == "SourceFileLoader"
