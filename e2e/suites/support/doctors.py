"""`muster doctor`, asked about the cluster under test by the command's own entry point, in this process."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from e2e.suites.support.kubectls import Kubectl
from muster.webhook.cli import main

__all__ = ["Examination", "examine"]


@dataclass(frozen=True, slots=True)
class Examination:
    """The report of the doctor.

    Attributes:
        code: the exit code.
        report: the JSON.
    """

    code: int
    report: Mapping[str, Any]

    def said(self, *severities: str, check: str = "") -> list[str]:
        """Return what was found of these severities, by one check or all, as `CHECK: WHAT; TODO`."""
        return [
            f"{each['check']}: {each['what']}; {each['todo']}"
            for each in self.report["findings"]
            if each["severity"] in severities and check in {"", each["check"]}
        ]


def examine(kubectl: Kubectl, *options: str) -> Examination:
    """Ask the doctor."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    arguments = ["doctor", "--kubeconfig", kubectl.kubeconfig, "-o", "json", *options]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main(arguments)
    texts = [_written(each) for each in (out, err)]
    assert texts[0], f"muster {' '.join(arguments)}: {code}\n{texts[1]}"
    return Examination(code, json.loads(texts[0]))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    stream.seek(0)
    return stream.read()
