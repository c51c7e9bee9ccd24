"""Migrations: what `muster migrate` makes of a file, called in this process, for the namespace of a test."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import yaml

from muster.webhook.cli import main

__all__ = ["migrated"]


def migrated(file: Path) -> list[dict[str, Any]]:
    """Return the documents of the output without their namespace, the TrainJob last.

    Raises:
        AssertionError: the file was not migrated.
    """
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main.main(["migrate", str(file)])
    assert code in (0, 1), err.getvalue()
    documents = list(yaml.load_all(out.getvalue(), yaml.CSafeLoader))
    for each in documents:
        each["metadata"].pop("namespace", None)
    return documents
