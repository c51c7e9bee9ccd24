"""What pods log until they end: a log goes with its pod, and tests of an end look for the last words."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import IO

from e2e.suites.support.kubectls import Kubectl

__all__ = ["followed"]

_BEGIN = 30.0  # for it to bring the first line; a pod that ends before is not followed
_END = 10.0  # seconds for `kubectl logs` to notice that its pod is gone


@contextmanager
def followed(kubectl: Kubectl, namespace: str, pods: Sequence[str]) -> Iterator[list[str]]:
    """Follow the logs of pods that the body ends; the list holds all their lines once the body is left.

    Args:
        kubectl: kubectl for the cluster.
        namespace: the namespace of the pods.
        pods: their names.
    """
    lines: list[str] = []
    with ExitStack() as files:
        command = [kubectl.binary, "--kubeconfig", kubectl.kubeconfig, "logs", "-n", namespace, "-f", "--tail=-1"]
        kept = [files.enter_context(tempfile.TemporaryFile()) for _ in pods]
        running = [
            subprocess.Popen([*command, pod], stdout=file, stderr=subprocess.DEVNULL)
            for pod, file in zip(pods, kept, strict=True)
        ]
        deadline = time.monotonic() + _BEGIN
        while time.monotonic() < deadline and not all(map(_has_begun, running, kept)):
            time.sleep(0.05)
        try:
            yield lines
        finally:
            for process, file in zip(running, kept, strict=True):
                _ended(process)
                file.seek(0)
                lines += file.read().decode(errors="replace").splitlines()


def _has_begun(process: subprocess.Popen[bytes], file: IO[bytes]) -> bool:
    return process.poll() is not None or os.fstat(file.fileno()).st_size > 0


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
