"""Many controllers as processes of this machine, and a witness who sees every state that the pods were ever in.

The controllers run with the service account that Muster has in the cluster, so its permissions are shown as well.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from e2e.cluster.places import REPOSITORY
from e2e.suites.claims import jobs
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.waits import until

__all__ = ["Controllers", "is_in", "witness"]

_ENDED = {"Succeeded", "Failed"}


class Controllers:
    """Processes of `python -m muster.webhook.controllers`, ended with the context.

    Args:
        kubectl: kubectl with the administrator's rights.
        folder: a folder for their files.
        config: Muster's configuration.
    """

    def __init__(self, kubectl: Kubectl, folder: Path, config: Mapping[str, Any]) -> None:
        self._folder = folder
        self._kubeconfig = _account(kubectl, folder / "kubeconfig")
        self._config = folder / "muster.yaml"
        self._config.write_text(yaml.safe_dump(dict(config)))
        self._stack = ExitStack()
        self._running: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """End them with the context."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the processes that still run; the leader releases the Lease."""
        for each in self._running:
            each.terminate()
        for each in self._running:
            try:
                each.wait(10)
            except subprocess.TimeoutExpired:
                each.kill()
                each.wait()
        self._stack.close()

    def start(self, count: int, *options: str) -> None:
        """Start some."""
        for _ in range(count):
            log = self._stack.enter_context(self._log(len(self._running)).open("wb"))
            command = [sys.executable, "-m", "muster.webhook.controllers", "--config", self._config]
            command += ["--kubeconfig", self._kubeconfig, *options]
            environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
            self._running.append(subprocess.Popen(command, stderr=log, env=environment, cwd=self._folder))

    def kill(self, number: int) -> None:
        """Kill one by SIGKILL."""
        self._running[number].send_signal(signal.SIGKILL)
        self._running[number].wait(10)

    def leader(self) -> int:
        """Wait until one of them leads, and return which."""

        def look() -> list[int]:
            alive = [number for number, each in enumerate(self._running) if each.poll() is None]
            leaders = [number for number in alive if self._leads(number)]
            assert len(leaders) == 1, leaders
            return leaders

        (leader,) = until("one controller to lead", look)
        return leader

    def _leads(self, number: int) -> bool:
        words = [each["message"] for each in self.said(number)]
        return [each for each in words if each in ("leading", "leading no more")][-1:] == ["leading"]

    def said(self, number: int) -> list[dict[str, Any]]:
        """Return what one has logged; a torn last line is left out."""
        lines = self._log(number).read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def _log(self, number: int) -> Path:
        return self._folder / f"controllers-{number}.log"


@contextmanager
def witness(space: Space, folder: Path) -> Iterator[list[Counter[str]]]:
    """Watch the pods of a namespace; once the body is left, the list holds who was in after each change, by claim.

    Raises:
        AssertionError: a pod that had ended or was deleted was in again; seats could not rely on such a state.
    """
    states: list[Counter[str]] = []
    kubectl = space.kubectl
    command = [kubectl.binary, "--kubeconfig", kubectl.kubeconfig, "get", "pods", "-n", space.name]
    command += ["--watch", "--output-watch-events", "-o", "json"]
    file = folder / "watch.json"
    with file.open("wb") as out:
        process = subprocess.Popen(command, stdout=out)
        try:
            yield states
        finally:
            process.terminate()
            process.wait(10)
    states += _states(_documents(file))


def is_in(pod: Mapping[str, Any]) -> bool:
    """Whether a pod was let in and has not ended."""
    gates = {gate["name"] for gate in pod["spec"].get("schedulingGates") or ()}
    return jobs.GATE not in gates and pod["status"].get("phase") not in _ENDED


def _states(events: Iterator[dict[str, Any]]) -> Iterator[Counter[str]]:
    inside: dict[str, str] = {}
    out: set[str] = set()
    for event in events:
        pod = event["object"]
        uid = pod["metadata"]["uid"]
        was = inside.pop(uid, None)
        if event["type"] != "DELETED" and is_in(pod):
            assert uid not in out, f"pod {pod['metadata']['name']} had ended, and came back: {pod['status']}"
            inside[uid] = pod["spec"]["resourceClaims"][0]["resourceClaimName"]
        elif was is not None:
            out.add(uid)
        yield Counter(inside.values())


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    decoder, text, place = json.JSONDecoder(), file.read_text(), 0
    while place < len(text):
        document, place = decoder.raw_decode(text, place)
        yield document
        while place < len(text) and text[place].isspace():
            place += 1


def _account(kubectl: Kubectl, path: Path) -> Path:
    """Write a kubeconfig with a token of Muster's service account."""
    token = kubectl.run("create", "token", "muster", "-n", "muster-system", "--duration=1h").expect().out.strip()
    shown = kubectl.run("config", "view", "--raw", "--minify", "--flatten", "-o", "json").expect().json
    path.write_text(json.dumps({**shown, "users": [{**shown["users"][0], "user": {"token": token}}]}))
    return path
