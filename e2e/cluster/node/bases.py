"""The file system that images are built on: a small Debian with Python, made by debootstrap once and kept as a layer.

It replaces the public image that Muster's Dockerfile names by default, where no registry can be reached.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from pathlib import Path

from e2e.cluster import builds, commands
from e2e.cluster.places import cache

__all__ = ["ISOLATED", "layer"]

ISOLATED = (
    *("setpriv", "--pdeathsig", "KILL", "--"),
    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
)
"""Prefix of a command that mounts: it ends with this process, and its mounts and children with it, even when killed."""

_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_LEFT_OUT = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./tmp/*",
    "./var/cache/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
    "./usr/share/doc",
    "./usr/share/info",
    "./usr/share/locale",
    "./usr/share/man",
    # Debian keeps pip away from its own Python; an image has no other Python to protect.
    "./usr/lib/python3.11/EXTERNALLY-MANAGED",
)


def layer() -> Path:
    """The layer, an uncompressed tar file in the cache; it is made in about a minute when it is missing.

    Raises:
        ClusterError: debootstrap failed; the message ends with its output.
    """
    recipe = hashlib.sha256(repr((_SUITE, _PACKAGES, _LEFT_OUT)).encode()).hexdigest()[:12]
    path = cache() / f"base-{recipe}.tar"
    with builds.locked(path):
        if not path.exists():
            _make(path)
    return path


def _make(path: Path) -> None:
    begun = time.monotonic()
    commands.say("making the images' base with debootstrap, about a minute")
    root, partial = path.with_suffix(".root"), path.with_suffix(".partial")
    shutil.rmtree(root, ignore_errors=True)
    commands.run([*ISOLATED, "debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, str(root)])
    (root / "usr/bin/python").symlink_to("python3")
    excluded = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    commands.run(["tar", "--numeric-owner", "--sort=name", *excluded, "-C", str(root), "-cf", str(partial), "."])
    shutil.rmtree(root)
    partial.rename(path)
    commands.say(f"made {path} in {time.monotonic() - begun:.0f} s")
