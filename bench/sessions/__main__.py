"""`python -m bench.sessions [gateway] [steps] [weights]`: runs these three by default."""

from __future__ import annotations

import sys

from bench.sessions import gateway, steps, weights

_ALL = {"gateway": gateway.run, "steps": steps.run, "weights": weights.run}

for name in sys.argv[1:] or _ALL:
    _ALL[name]()
    print()
