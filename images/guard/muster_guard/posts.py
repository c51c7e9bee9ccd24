"""Rank 0 posts what is measured to Trainer's status server, so that `status.trainerStatus` of the TrainJob has it.

Trainer keeps the newest post and nothing of those before. So where transformers' KubeflowCallback posts, the guard's
metrics go with its own; only where it does not, or where the process ends before it would, the guard posts itself, with
the newest progress of the callback.

Nothing here waits in the thread of the training, but for some seconds at its end.

Source: trainer v2.3.0 pkg/statusserver/server.go and pkg/runtime/framework/plugins/trainjobstatus (KEP-2779);
transformers/integrations/integration_utils.py, `KubeflowCallback`.
"""

from __future__ import annotations

import functools
import http.client
import itertools
import json
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster_guard import calls, endings, measured, sizes, trainings

__all__ = ["Poster", "changed", "finish", "watch"]

_SERVER, _AUTHORITY, _TOKEN = (f"KUBEFLOW_TRAINER_SERVER_{name}" for name in ("URL", "CA_CERT", "TOKEN"))
_METRICS = 256  # Trainer keeps no more
_TIMEOUT = 5.0  # seconds of each wait for the server
# Seconds between attempts, less up to a half by chance; together they are longer than a restart of Trainer takes.
_DELAYS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_LAST = 3.0  # seconds that the end of the process waits for a post
_TEMPORARY = (408, 429)


class Poster:
    """The posts of this process.

    Args:
        metrics: returns what is to be posted now.
        delays: seconds between attempts.
    """

    def __init__(self, metrics: Callable[[], dict[str, str]], delays: tuple[float, ...] = _DELAYS) -> None:
        self._metrics, self._delays = metrics, delays
        self._process: int | None = None
        self._theirs: dict[str, Any] | None = None
        self._sent: dict[str, str] = {}
        self._asked = self._done = 0
        self._state, self._closing = threading.Condition(), threading.Event()
        self._thread: threading.Thread | None = None
        self._told = False
        self._chance = random.Random()  # noqa: S311  # of our own: the training's random numbers stay as they are

    def changed(self) -> None:
        """Have the metrics posted soon, by the callback where there is one."""
        if self._process not in (None, os.getpid()):
            return  # a fork of the training
        if self._thread is None:
            self._process = os.getpid()
            self._thread = threading.Thread(target=calls.harmless(self._run), name="muster-posts", daemon=True)
            self._thread.start()
        if self._theirs is None:
            self._ask()

    def finish(self) -> None:
        """Post what is new before the process ends; wait for it, but not long."""
        own = self._metrics()
        if self._process not in (None, os.getpid()) or not own or own == self._sent:
            return
        self.changed()
        self._ask()
        self._closing.set()
        with self._state:
            self._state.wait_for(lambda: self._done >= self._asked, 0 if self._told else _LAST)

    def join(self, posted: Callable[..., bool]) -> Callable[..., bool]:
        """Return the callback's method with the metrics added to what it posts; its own ones stay."""

        @functools.wraps(posted)
        def wrapper(*args: Any, **kwargs: Any) -> bool:
            own = calls.harmless(self._metrics)() or {}
            self._theirs = dict(kwargs)
            joined = calls.harmless(_joined)(kwargs.get("metrics"), own)
            result = posted(*args, **({**kwargs, "metrics": joined} if joined else kwargs))
            if result:
                self._sent = own
            return result

        return wrapper

    def _ask(self) -> None:
        with self._state:
            self._asked += 1
            self._state.notify_all()

    def _run(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._asked > self._done)
            asked = self._try()
            with self._state:
                self._done = asked
                self._state.notify_all()

    def _try(self) -> int:
        """Post, again after a while where that may help, and tell a failure; return what had been asked at the last."""
        asked = 0
        for delay in (*self._delays, None):
            asked, own, last = self._asked, self._metrics(), delay is None or self._closing.is_set()
            try:
                status, answer = _post(_status(own, self._theirs))
            except (OSError, ValueError, http.client.HTTPException) as error:
                status, answer = 0, f"{type(error).__name__}: {error}"
            if status == http.HTTPStatus.OK:
                self._sent, self._told = own, False
                return asked
            if last or delay is None or not (status in _TEMPORARY or status // 100 in (0, 5)):
                break
            self._closing.wait(delay * (1 - self._chance.random() / 2))  # at the end of the process there is one more
        if not self._told:
            self._told = True
            endings.say(
                f"muster: {_SERVER}={os.environ.get(_SERVER)} takes no metrics ({answer}); the status of the TrainJob"
                " will not show them. The training is not affected."
            )
        return asked


def _joined(theirs: Mapping[str, Any] | None, own: Mapping[str, str]) -> dict[str, Any]:
    """Return the metrics of the callback and, behind them, as many of the guard's as Trainer takes."""
    known = theirs or {}
    return dict(itertools.islice({**known, **own, **known}.items(), _METRICS))


def _status(own: dict[str, str], theirs: dict[str, Any] | None) -> dict[str, Any]:
    """Return a status as Trainer's server takes it."""
    theirs = theirs or {}
    metrics = _joined(theirs.get("metrics"), own)
    known = {
        "progressPercentage": theirs.get("progress_percent"),
        "estimatedRemainingSeconds": theirs.get("estimated_time_remaining"),
        "metrics": [{"name": str(name), "value": str(value)} for name, value in metrics.items()],
        "lastUpdatedTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    return {"trainerStatus": {name: value for name, value in known.items() if value is not None}}


def _post(status: dict[str, Any]) -> tuple[int, str]:
    """Return the status code and the beginning of the answer.

    It takes no proxy and follows no redirection, so that the token goes nowhere else.
    """
    address = urlsplit(os.environ.get(_SERVER, ""))
    if address.scheme != "https" or not address.hostname:
        raise ValueError("it must be an https URL")
    context = ssl.create_default_context(cafile=os.environ.get(_AUTHORITY) or None)
    token = Path(os.environ.get(_TOKEN, "")).read_text(encoding="utf-8").strip()  # the kubelet renews it
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    server = http.client.HTTPSConnection(address.hostname, address.port, timeout=_TIMEOUT, context=context)
    try:
        server.request("POST", address.path, json.dumps(status), headers)
        answer = server.getresponse()
        return answer.status, f"{answer.status} {answer.read(300).decode(errors='replace').strip()}"
    finally:
        server.close()


def _known() -> dict[str, str]:
    """Return what rank 0 has to post: what is measured or, before the first step, the size."""
    size, rank = (trainings.current.size, trainings.current.rank) if trainings.current else trainings.place()
    asked = sizes.expected()
    if rank != 0:
        return {}
    verdict = "size-differs" if asked and asked.sure and not asked.holds(size) else None
    found = {"world-size": size, "expected-world-size": asked, "verdict": verdict}
    return measured.metrics() or {
        f"muster.dev/{name}": str(value) for name, value in found.items() if value is not None
    }


_poster = Poster(_known)


@calls.harmless
def changed() -> None:
    """Have the metrics of this process posted soon, if it is rank 0; does not wait."""
    if _known():
        _poster.changed()


@calls.harmless
def finish() -> None:
    """Post what is new before this process ends."""
    _poster.finish()


endings.before.append(finish)
trainings.begun.append(changed)


def watch(module: Any) -> None:
    """Have transformers' callback post the guard's metrics with its own.

    Args:
        module: `transformers.integrations.integration_utils`; before 5.0 it has no such callback.
    """
    callback = getattr(module, "KubeflowCallback", None)
    if callback is not None:
        callback._update_status = _poster.join(callback._update_status)  # noqa: SLF001  # there is no public way
