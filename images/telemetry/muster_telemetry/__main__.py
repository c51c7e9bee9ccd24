"""`python -m muster_telemetry OUTPUT/checkpoint-8/trainer_state.json > run.svg`: draws a run from what it kept."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from muster_telemetry import plots

__all__ = ["main"]

_USAGE = "usage: python -m muster_telemetry TRAINER_STATE.json > PLOT.svg"


def main(arguments: list[str]) -> int:
    """Print the plot of a run; 0 when there is one, 2 when the file has none."""
    if len(arguments) != 1 or arguments[0].startswith("-"):
        sys.stderr.write(f"{_USAGE}\n")
        return 2
    try:
        rows = json.loads(Path(arguments[0]).read_bytes())["log_history"]
        text = plots.draw([row for row in rows if isinstance(row, dict)])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as fault:
        sys.stderr.write(f"{arguments[0]}: is not a trainer_state.json of transformers: {fault}\n")
        return 2
    if text is None:
        sys.stderr.write(f"{arguments[0]}: nothing in its log_history can be drawn: was it a training with a reward?\n")
        return 2
    sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
