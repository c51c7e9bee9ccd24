"""`muster status` and `muster claims`, asked about the cluster under test by the entry point, in this process."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from e2e.suites.support.kubectls import Kubectl
from muster.webhook.cli import main

__all__ = ["lines", "run", "told"]


def told(kubectl: Kubectl, *options: str) -> Any:
    """Return what `muster status -o json` says.

    Raises:
        AssertionError: it could not say anything; with what it said instead.
    """
    return json.loads(run(kubectl, "status", *options, "-o", "json"))


def lines(kubectl: Kubectl, *options: str) -> list[str]:
    """Return the lines that people get.

    Raises:
        AssertionError: as of `told`.
    """
    return run(kubectl, "status", *options).splitlines()


def run(kubectl: Kubectl, command: str, *options: str) -> str:
    """Return what a command prints.

    Raises:
        AssertionError: as of `told`.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    arguments = [command, "--kubeconfig", kubectl.kubeconfig, *options]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main(arguments)
    texts = [_written(each) for each in (out, err)]
    assert code in {0, 1}, f"muster {' '.join(arguments)}: {code}\n{texts[1]}"
    return texts[0]


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
