"""The suites of both tiers, three clusters at a time.

Most suites wait for controllers that wait for one another and use a quarter of two cores, so clusters side by side take
a third of the time that they take one after the other. What does need the cores, the suites whose tests run side by
side and the 500 jobs of `scale`, has a lane to itself.

Each lane is a row of runs of `python -m e2e.run`, one cluster each, whose output is shown when the run has ended.
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
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import commands, places, sites

__all__ = ["Run", "lanes", "run"]

_END = 120.0  # seconds for a run to take its cluster down


@dataclass(frozen=True, slots=True)
class Run:
    """Some suites in a cluster of their own.

    Attributes:
        tier: of the cluster.
        suites: in it.
    """

    tier: sites.Tier
    suites: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.tier}: {', '.join(self.suites)}"


def lanes(tiers: Sequence[sites.Tier], together: Sequence[str]) -> list[list[Run]]:
    """Return the runs that go side by side, each lane from its first to its last.

    Args:
        tiers: that this machine can run.
        together: suites whose tests run side by side.
    """
    rows = [(*together, "scale")], [("outage",)], [("upgrade", "wedges"), ("claims",)]
    made = [[Run(tier, suites) for tier in tiers for suites in row] for row in rows]
    # The busy lane begins with the other tier than the others, so that not all set up nodes at once.
    return [made[0], *(list(reversed(each)) for each in made[1:])]


def run(rows: Sequence[Sequence[Run]], extra: Sequence[str]) -> int:
    """Run all lanes; 0 when every run passed. After a failure nothing further is begun.

    Args:
        rows: the lanes.
        extra: further arguments of pytest.
    """
    work = _Work(extra)
    begun = time.monotonic()
    with ThreadPoolExecutor(len(rows), thread_name_prefix="lane") as threads, work.ended_with_us():
        codes = [code for codes in threads.map(work.lane, rows) for code in codes]
    failed = sum(1 for code in codes if code)
    count = sum(map(len, rows))
    commands.say(
        f"{len(codes) - failed} of {count} runs passed, {failed} failed, {count - len(codes)} not begun,"
        f" in {time.monotonic() - begun:.0f} s"
    )
    return 0 if not failed and len(codes) == count else 1


class _Work:
    def __init__(self, extra: Sequence[str]) -> None:
        self._extra = extra
        self._over = threading.Event()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._shown = threading.Lock()

    def lane(self, row: Sequence[Run]) -> list[int]:
        codes = []
        for each in row:
            if self._over.is_set():
                break
            codes.append(self._run(each))
            if codes[-1]:
                self._over.set()
        return codes

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
        command = [sys.executable, "-u", "-m", "e2e.run", "--tier", each.tier, *chosen, *self._extra]
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
