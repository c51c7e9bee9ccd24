"""A real browser for the tests of the audit pages: found, or installed from Debian when root, or reported as missing.

python -m e2e.browsers
"""

from __future__ import annotations

import shutil
import sys

from e2e.cluster import packages
from e2e.cluster.errors import ClusterError

__all__ = ["find", "main"]

_NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
_FONTS = "fonts-liberation"  # without any font, a page has no letters and no widths


def find() -> str | None:
    """Return the path of a browser that speaks the DevTools protocol, None when there is none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)


def main() -> int:
    """Install a browser unless there is one; a machine where that is not possible is reported, and is not a failure."""
    if find() is None:
        try:
            packages.ensure(packages.BROWSER, _FONTS)
        except ClusterError as error:
            print(f"muster: there is no browser, so the browser tests of the audit pages are skipped: {error}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
