"""Runs kubectl, and says what failed in a step of the installer."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["MANAGER", "Document", "InstallError", "Kubectl"]


class InstallError(Exception):
    """A step failed; the message is for the terminal, and names the step, the cause and what to do."""


# Any: a raw Kubernetes object.
Document = dict[str, Any]

MANAGER = "muster-installs"
"""Field manager of applied objects, and label of the Secret that Muster makes. It must not change: an upgrade under
another name would keep fields that the base has dropped, and would not recognise the Secret as Muster's."""
_LOGGED = re.compile(r"[IWEF]\d{4} ")


class Kubectl:
    """One kubectl for one cluster.

    Args:
        program: path or name of the binary.
        kubeconfig: None for kubectl's default (KUBECONFIG, then the file in the home folder).
    """

    def __init__(self, program: str | Path = "kubectl", kubeconfig: Path | None = None) -> None:
        self._program = str(program)
        self._cluster = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []

    def run(self, *arguments: str, given: str = "", timeout: float = 60.0) -> str:
        """Run kubectl and return what it prints.

        Args:
            arguments: after `kubectl --kubeconfig ...`.
            given: text for its stdin.
            timeout: seconds after which it is stopped.

        Raises:
            InstallError: kubectl is missing, fails or does not end.
        """
        spoken = f"kubectl {' '.join(arguments)}"
        try:
            done = subprocess.run(  # noqa: S603  # the program is the caller's kubectl, without a shell
                [self._program, *self._cluster, *arguments],
                check=False,
                input=given,
                capture_output=True,
                text=True,
                timeout=timeout,
            )
        except FileNotFoundError as error:
            raise InstallError(f"{self._program}: kubectl was not found; name one with --kubectl") from error
        except OSError as error:
            raise InstallError(f"{self._program}: cannot be run: {error.strerror}") from error
        except subprocess.TimeoutExpired as error:
            raise InstallError(
                f"{spoken}: did not end within {timeout:g} s; check that the API server can be reached"
            ) from error
        if done.returncode != 0:
            raise InstallError(f"{spoken}: {_said(done.stderr) or f'exit code {done.returncode}'}")
        return done.stdout

    def apply(self, documents: Sequence[Document]) -> None:
        """Apply on the server side; fields of these documents become Muster's, whoever set them before."""
        items = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        flags = ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}")
        self.run("apply", *flags, "-f", "-", given=json.dumps(items))

    def get(self, kind: str, name: str, namespace: str = "") -> Document | None:
        """Return an object, None when there is none."""
        place = ["--namespace", namespace] if namespace else []
        text = self.run("get", kind, name, *place, "--ignore-not-found", "--output=json")
        found: Document | None = json.loads(text) if text.strip() else None
        return found

    def delete(self, document: Document) -> bool:
        """Delete an object and wait until it is gone; return whether there was one."""
        metadata = document["metadata"]
        place = ["--namespace", metadata["namespace"]] if "namespace" in metadata else []
        group = document["apiVersion"].rpartition("/")[0]
        kind = document["kind"].lower() + (f".{group}" if group else "")
        said = self.run("delete", kind, metadata["name"], *place, "--ignore-not-found", "--timeout=90s", timeout=100.0)
        return bool(said.strip())


def _said(stderr: str) -> str:
    """Return the error of kubectl without the log lines of its libraries."""
    return "\n".join(line for line in stderr.splitlines() if not _LOGGED.match(line)).strip()
