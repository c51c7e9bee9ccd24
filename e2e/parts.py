"""`python -m e2e.parts PART...`: runs parts of the Makefile one after the other, and tells what each of them took.

A part is a target with its variables, as one word for the shell: "unit QUICK=1". After one that fails nothing further
is begun. It is run by the system's Python, before there is a virtual environment, and so needs the standard library
alone.
"""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LONG", "Took", "main", "told"]

LONG = 45 * 60.0
"""Seconds after which the whole is called long: half of what CI gives it."""

_END = 150.0  # seconds for a part to take its clusters down


@dataclass(frozen=True, slots=True)
class Took:
    """What one part took.

    Attributes:
        name: of its target.
        seconds: by the clock on the wall.
        code: exit code.
    """

    name: str
    seconds: float
    code: int


def main(parts: Sequence[str]) -> int:
    """Run the parts in their order; the exit code of the first that failed, else 0."""
    # As Ctrl-C does: what runs is ended in order, with its clusters.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    took: list[Took] = []
    try:
        for part in parts:
            took.append(_run(part))
            if took[-1].code:
                break
    finally:
        sys.stdout.write(told(took, [shlex.split(part)[0] for part in parts[len(took) :]]))
    return took[-1].code if took else 0


def told(took: Sequence[Took], left: Sequence[str] = ()) -> str:
    """Say what each part took, the slowest first, and what was not begun or did not come to its end.

    Args:
        took: the parts that ended.
        left: names of the others.
    """
    whole = sum(each.seconds for each in took)
    lines = [f"muster: {len(took)} parts took {whole:.0f} s ({whole / 60:.1f} min), the slowest first:"]
    slowest = sorted(took, key=lambda each: -each.seconds)
    lines += [f"muster: {each.seconds:7.0f} s  {each.name}{' FAILED' if each.code else ''}" for each in slowest]
    if left:
        lines.append(f"muster: NOT run to their end: {', '.join(left)}")
    if whole > LONG:
        lines.append(f"muster: this took longer than {LONG / 60:.0f} minutes; CI stops it at 90 minutes.")
    return "\n".join(lines) + "\n"


def _run(part: str) -> Took:
    words = shlex.split(part)
    sys.stdout.flush()
    begun = time.monotonic()
    with subprocess.Popen(["make", "--no-print-directory", *words]) as process:
        try:
            code = process.wait()
        except BaseException:
            process.terminate()
            process.wait(_END)
            raise
    return Took(words[0], time.monotonic() - begun, code)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
