"""Runs a notebook from top to bottom in its own folder, as `jupyter execute` does: `execute.py NOTEBOOK OUT`."""

from __future__ import annotations

import sys
from pathlib import Path

import nbclient
import nbformat

path, out = map(Path, sys.argv[1:])
notebook = nbformat.read(path, as_version=4)
nbformat.validate(notebook)
client = nbclient.NotebookClient(notebook, timeout=800, resources={"metadata": {"path": str(path.parent)}})
try:
    client.execute()
finally:
    nbformat.write(notebook, out)
