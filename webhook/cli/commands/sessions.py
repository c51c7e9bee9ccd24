"""`muster sessions`: becomes the command line of package `muster.sessions`, where its extra is installed.

The process is replaced, so that nothing that the webhook runs imports `muster.sessions`, and signals and exit codes are
those of the program. An entry point would have loaded it into this process.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys

from muster.webhook.cli import problems

__all__ = ["run"]

_NEEDED = ("muster.sessions", "tinker", "zstandard")
"""What is there where the extra is installed; no other extra brings the last two."""


def run(args: argparse.Namespace) -> int:
    """Run `python -m muster.sessions.cli` in the place of this process; it returns only by an exception."""
    if any(importlib.util.find_spec(each) is None for each in _NEEDED):
        raise problems.CommandError(
            "`muster sessions` needs the extra `sessions`, which is not installed here: run"
            " pip install 'muster-admission[sessions]'"
        )
    # -P: a folder `muster` where the command is called is not what was installed.
    command = [sys.executable, "-P", "-m", "muster.sessions.cli", *args.words]
    os.execv(sys.executable, command)  # noqa: S606  # no shell, and this interpreter
