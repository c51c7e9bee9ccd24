"""Copies the folder of the guard, in which this file is, to the folder that is its argument; an init container runs it.

`python3 -I -S` starts it within some 20 ms, and it needs neither a shell nor other programs of the image. The training
may run as any user, so everybody may read the copies. `env` is open to everybody: the init container that writes there
has the image of the training, and may have another user than this one.
"""

from __future__ import annotations

import os
import sys

_NOTES = "env"


def _copy(source: str, target: str) -> None:
    for entry in os.scandir(source):
        path = os.path.join(target, entry.name)
        if entry.is_dir():
            _make(path, 0o755)
            _copy(entry.path, path)
        else:
            with open(entry.path, "rb") as there, open(path, "wb") as here:
                here.write(there.read())
            os.chmod(path, 0o644 | (entry.stat().st_mode & 0o111))


def _make(path: str, mode: int) -> None:
    os.makedirs(path, exist_ok=True)
    os.chmod(path, mode)  # whatever the umask is


def main(target: str) -> None:
    """Copy everything, and make the folder of notes.

    Args:
        target: a folder that exists; files of the same names are written again.
    """
    try:
        _copy(os.path.dirname(os.path.abspath(__file__)), target)
        _make(os.path.join(target, _NOTES), 0o777)
    except OSError as error:
        sys.exit(f"muster: the guard cannot be copied: {error}; `muster.dev/guard: off` on the job leaves it out")


if __name__ == "__main__":
    main(sys.argv[1])
