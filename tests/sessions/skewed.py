"""A Gateway whose machine has another time: `python -m tests.sessions.skewed SECONDS serve ...`.

All that asks Python for the time gets one that is so many seconds ahead. Clocks that count from somewhere stay.
"""

from __future__ import annotations

import datetime
import sys
import time

AHEAD = float(sys.argv.pop(1))
_now, _Plain = time.time, datetime.datetime


class _Skewed(_Plain):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(time.time(), tz)


time.time = lambda: _now() + AHEAD
datetime.datetime = _Skewed  # before anything else imports it

from muster.sessions.cli.main import main  # noqa: E402  # as above

if __name__ == "__main__":
    sys.exit(main())
