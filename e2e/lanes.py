"""Runs of suites, two clusters at a time.

Most suites wait for controllers that wait for one another, and leave half of two cores idle. With three clusters the
cores were never idle, all was as slow, and tests met reasons of a busy machine. Each lane takes the next run when it is
through with one; a run is `python -m e2e.run` with a cluster of its own, whose output is shown when it has ended.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from e2e.cluster import commands, places
from e2e.plans import Run

__all__ = ["run"]

_LANES = 2
_END = 120.0  # seconds for a run to take its cluster down


def run(wanted: Sequence[Run], extra: Sequence[str]) -> int:
    """Run all; 0 when every run passed. After a failure nothing further is begun.

    Args:
        wanted: what to run, in this order.
        extra: further arguments of pytest.
    """
    work = _Work(extra)
    begun = time.monotonic()
    with ThreadPoolExecutor(_LANES, thread_name_prefix="lane") as threads, work.ended_with_us():
        codes = [code for code in threads.map(work.run, wanted) if code is not None]
    failed, left = sum(map(bool, codes)), len(wanted) - len(codes)
    commands.say(
        f"{len(codes) - failed} of {len(wanted)} runs passed, {failed} failed, {left} not begun,"
        f" in {time.monotonic() - begun:.0f} s"
    )
    return 1 if failed or left else 0


class _Work:
    def __init__(self, extra: Sequence[str]) -> None:
        self._extra = extra
        self._over = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._shown = threading.Lock()

    def run(self, each: Run) -> int | None:
        """Return the exit code of a run, None when it was not begun."""
        if self._over.is_set():
            return None
        code = self._run(each)
        if code:
            self._over.set()
        return code

    @contextlib.contextmanager
    def ended_with_us(self) -> Iterator[None]:
        """Whatever ends this process ends the runs, in order, with their clusters."""
        try:
            yield
        except BaseException:
            self._over.set()
            for each in tuple(self._running):
                each.send_signal(signal.SIGTERM)
            for each in tuple(self._running):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    each.wait(_END)
            raise

    def _run(self, each: Run) -> int:
        log = places.REPOSITORY / "build" / "e2e" / f"{each.tier}-{each.suites[0]}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        commands.say(f"begun: {each} (its output: {log.relative_to(places.REPOSITORY)})")
        chosen = [word for suite in each.suites for word in ("--suite", suite)]
        command = [sys.executable, "-u", "-m", "e2e.run", "--tier", each.tier, *chosen]
        command += [*(["--quick"] if each.quick else []), *self._extra]
        with log.open("wb") as output:
            # In a session of its own Ctrl-C does not reach it, only our SIGTERM: one signal, one cleaning up.
            process = subprocess.Popen(
                command, cwd=places.REPOSITORY, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running.add(process)
            code = process.wait()
            self._running.discard(process)
        self._show(each, code, log)
        return code

    def _show(self, each: Run, code: int, log: Path) -> None:
        with self._shown:
            commands.say(f"{'FAILED' if code else 'passed'}: {each}")
            sys.stdout.write(log.read_text(errors="replace"))
            sys.stdout.flush()
