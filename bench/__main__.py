"""`python -m bench [evaluations] [requests] [commands] [growth]`: runs these four by default.

`admissions` needs a cluster; `pairs` compares with another checkout; `crowds` opens 2,000 connections on loopback;
`caches` fills the memory of a pod; `limits` measures the largest documents that pass the budget.
"""

from __future__ import annotations

import sys

from bench import admissions, caches, commands, crowds, evaluations, growth, limits, pairs, requests

_ALL = {"evaluations": evaluations.run, "requests": requests.run, "commands": commands.run, "growth": growth.run}

_ASKED = {
    **_ALL,
    "admissions": admissions.run,
    "crowds": crowds.run,
    "caches": caches.run,
    "limits": limits.run,
    "pairs": pairs.run,
}

for name in sys.argv[1:] or _ALL:
    _ASKED[name]()
    print()
