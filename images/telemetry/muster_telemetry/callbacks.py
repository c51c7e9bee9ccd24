"""The callback of all of transformers' trainers: it looks at what is logged, and only where that has a reward.

It runs in one rank, the one that TRL gathers its metrics in. A port that is taken or a volume that is full is told in
the log, and ends no training.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from muster_guard import endings, trainings
from muster_telemetry import measures, meters, plots, syncs
from muster_telemetry.summaries import Summary

__all__ = ["Observer", "watch"]


def watch(module: Any) -> None:
    """Add a callback to all trainers of `transformers.trainer`, by its own list of default callbacks."""
    module.DEFAULT_CALLBACKS = [*module.DEFAULT_CALLBACKS, _callback(module.TrainerCallback)]


class Observer:
    """What is seen of one training.

    Args:
        sent: the syncs of its weights.
        clock: seconds that never go back.
    """

    def __init__(self, sent: syncs.Syncs = syncs.current, clock: Callable[[], float] = time.monotonic) -> None:
        self.summary = Summary(sent)
        self.meters = meters.Meters(sent)
        self._syncs = sent
        self._clock = clock
        self._tokens: tuple[float, float] | None = None
        self._rows: list[dict[str, Any]] = []
        self._folder: Path | None = None
        self._drawn = 0

    def begin(self) -> None:
        """Listen where a port is asked for, and be at the end of the process, however that comes."""
        trainings.added["sampling"] = self.summary.report
        endings.before.append(self.draw)
        atexit.register(self.draw)
        number = meters.port()
        if number is not None:
            try:
                self.meters.serve(number)
            except (ImportError, OSError) as fault:
                endings.say(f"muster: {meters.PORT}: there are no metrics at port {number}: {fault}")

    def logged(self, logs: dict[str, Any], rows: list[dict[str, Any]], folder: str) -> None:
        """Take what a trainer logs, and add to it what TRL does not.

        Args:
            logs: as other callbacks get it after this one.
            rows: `log_history`, of which the last is a copy of it.
            folder: the output of the training.
        """
        if measures.number(logs.get("reward")) is None:
            return
        more = self._measured(logs)
        logs |= more
        self._rows, self._folder = rows, Path(folder)
        if rows:
            rows[-1] |= more
        self.summary.add(logs)
        self.meters.add(logs, int(rows[-1].get("step", 0)) if rows else 0)

    def draw(self) -> None:
        """Write the plot, unless it is there already."""
        if self._folder is None or len(self._rows) == self._drawn:
            return
        self._drawn = len(self._rows)
        try:
            plots.write(self._rows, self._folder)
        except OSError as fault:
            endings.say(f"muster: the plot of this training cannot be written: {fault}")

    def _measured(self, logs: dict[str, Any]) -> dict[str, float]:
        known = measures.values(logs)
        found = {
            measures.SYNC: None if "sync_seconds" in known else self._syncs.taken(),
            measures.DIFFERENCE: None if "difference" in known else self._syncs.difference,
            measures.TOKENS: None if "tokens_per_second" in known else self._speed(logs),
        }
        return {key: value for key, value in found.items() if value is not None}

    def _speed(self, logs: dict[str, Any]) -> float | None:
        """Return tokens a second since the last row; TRL's `num_tokens` counts all since the start."""
        tokens, now = measures.number(logs.get("num_tokens")), self._clock()
        if tokens is None:
            return None
        before, self._tokens = self._tokens, (tokens, now)
        return (tokens - before[0]) / (now - before[1]) if before and now > before[1] else None


def _callback(base: Any) -> Any:
    class Telemetry(base):  # type: ignore[misc]  # transformers is untyped here
        """Tells an observer what is logged."""

        _observer: Observer | None = None

        def on_log(self, args: Any, state: Any, _control: Any, logs: Any = None, **_: Any) -> None:
            """Look at what is logged."""
            if not state.is_world_process_zero or not isinstance(logs, dict) or "reward" not in logs:
                return
            if self._observer is None:
                self._observer = Observer()
                self._observer.begin()
            self._observer.logged(logs, state.log_history, args.output_dir)

        def on_train_end(self, *_: Any, **__: Any) -> None:
            """Draw before the trainer saves what it made."""
            if self._observer is not None:
                self._observer.draw()

    return Telemetry
