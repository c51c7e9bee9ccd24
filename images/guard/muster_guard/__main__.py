"""`python -m muster_guard [MODULE...]`: checks that the guard is active and that the image has its modules.

This is the health command of the training images. It imports nothing large; it only looks for each module.
"""

from __future__ import annotations

import importlib.util
import json
import sys

from muster_guard import sizes, start, watches


def main(modules: list[str]) -> int:
    """Print the state as JSON; return 0 when the guard is active or switched off and every module can be found."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    watching = any(isinstance(finder, watches.Watcher) for finder in sys.meta_path)
    asked = sizes.expected()
    found = {
        "guard": start.MODE if watching or start.MODE == "off" else "not active: is muster_guard.pth installed?",
        "expected": asked and f"{asked} ({asked.source})",
        "missing": missing,
        "python": sys.version.split()[0],
    }
    print(json.dumps(found))  # noqa: T201  # the output of the command
    return 1 if missing or not (watching or start.MODE == "off") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
