"""`python -m bench [evaluations] [requests] [commands]`: all of them without arguments."""

from __future__ import annotations

import sys

from bench import commands, evaluations, requests

_ALL = {"evaluations": evaluations.run, "requests": requests.run, "commands": commands.run}

for name in sys.argv[1:] or _ALL:
    _ALL[name]()
    print()
