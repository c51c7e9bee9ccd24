"""`python -m tools.pins`: beside each file of pins, a lock that has the hashes of the wheels.

People write the pins, with reasons. pip installs by the lock, and takes no file whose hash is not in it.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = ["locked", "main", "pinned"]

ROOT = Path(__file__).parents[1]
_FILES = (
    "requirements/*.txt",
    "images/torch.txt",
    "images/*/requirements*.txt",
    "bench/peers/programs/requirements.txt",
)
_PYTHON = "3.11.5"  # the oldest one that all pins of the tests take
_WHEEL = re.compile(
    r"-(py[\dpy.]+|cp3\d+)-(none|abi3|cp31[1-4])-(any|manylinux\w+_(x86_64|aarch64)[\w.]*|macosx\w+_(arm64|universal2))\.whl$"
)
"""The wheels that are kept: of CPython 3.11 to 3.14, on Linux with glibc (x86_64, aarch64) and macOS (arm64)."""


def main() -> int:
    """Write all locks anew, by what the package index has; return 0.

    Raises:
        CalledProcessError: uv found no such version, or could not reach the index; it says so itself.
    """
    for file in pinned():
        file.with_suffix(".lock").write_text(locked(file), encoding="utf-8")
    return 0


def pinned() -> list[Path]:
    """Return the files of pins, each of which has its lock beside it."""
    return sorted(path for pattern in _FILES for path in ROOT.glob(pattern))


def locked(file: Path) -> str:
    """Return the text of the lock: each package on one line, with the hashes of its wheels.

    A package that has no wheel gets the hash of its source.
    """
    options = ("--quiet", "--no-deps", "--universal", "--python-version", _PYTHON, "--format", "pylock.toml")
    command = ("uv", "pip", "compile", *options, str(file))
    found = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [f"# Made of {file.name} by `make pins`."]
    for package in tomllib.loads(found)["packages"]:
        wheels = [each for each in package.get("wheels", ()) if _WHEEL.search(each["url"])]
        hashes = sorted(each["hashes"]["sha256"] for each in wheels or [package["sdist"]])
        lines.append(
            " ".join([f"{package['name']}=={package['version']}", *(f"--hash=sha256:{each}" for each in hashes)])
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
