"""Programs that record how they were called, in place of the programs that Muster's scripts run.

PATH holds only them and the few programs of the system that a script may use, so that the result does not depend on
what this machine has or lacks.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess

__all__ = ["Programs"]

_SYSTEM = ("bash", "cat", "chmod", "dirname", "env", "git", "grep", "mkdir", "rm", "rmdir", "sh", "wc")
_BETWEEN = "\x1f"
_RECORD = r"""#!/bin/sh
calls={calls}
line={name}
for word do line="$line$(printf '\037')$word"; done
number=$(($(wc -l < "$calls")))
printf '%s\n' "$line" >> "$calls"
"""


class Programs:
    """A PATH for one test.

    Args:
        folder: an empty one.

    Attributes:
        path: the value of the variable PATH.
    """

    def __init__(self, folder):
        self._folder = folder
        self._calls = folder / "calls"
        self._calls.touch()
        self._programs = folder / "programs"
        self._programs.mkdir()
        self.path = str(self._programs)
        for name in _SYSTEM:
            found = shutil.which(name)
            if found:
                (self._programs / name).symlink_to(found)

    def add(self, name, then=""):
        """Add a program; it records its call, runs `then` in sh, and ends with its exit code.

        `$number` is how many calls there were before.
        """
        program = self._programs / name
        program.unlink(missing_ok=True)
        program.write_text(_RECORD.format(calls=shlex.quote(str(self._calls)), name=name) + then + "\n")
        program.chmod(0o755)
        return program

    def link(self, name, program):
        """Add a real program."""
        (self._programs / name).unlink(missing_ok=True)
        (self._programs / name).symlink_to(program)

    def remove(self, name):
        """Remove a program."""
        (self._programs / name).unlink()

    @property
    def calls(self):
        """What was called, in order: lists of the program's name and its arguments."""
        return [line.split(_BETWEEN) for line in self._calls.read_text().splitlines()]

    def run(self, *command, environment=None, folder=None):
        """Run a command that sees these programs only; the outcome has returncode, stdout and stderr."""
        return subprocess.run(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=folder,
            env={"PATH": self.path, "HOME": str(self._folder), **(environment or {})},
        )
