"""What pods log until they end: a log goes with its pod, and tests of an end look for the last words."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from e2e.suites.support.kubectls import Kubectl

__all__ = ["followed"]

_END = 10.0  # seconds for `kubectl logs` to notice that its pod is gone


@contextmanager
def followed(kubectl: Kubectl, namespace: str, pods: Sequence[str]) -> Iterator[list[str]]:
    """Follow the logs of pods that the body ends; the list holds all their lines once the body is left.

    Args:
        kubectl: of the cluster.
        namespace: of the pods.
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
        try:
            yield lines
        finally:
            for process, file in zip(running, kept, strict=True):
                _ended(process)
                file.seek(0)
                lines += file.read().decode(errors="replace").splitlines()


def _ended(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
