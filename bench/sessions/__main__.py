"""`python -m bench.sessions [gateway] [loops] [steps] [weights]`: runs these four by default."""

from __future__ import annotations

import sys

from bench.sessions import gateway, loops, steps, weights

_ALL = {"gateway": gateway.run, "loops": loops.run, "steps": steps.run, "weights": weights.run}

for name in sys.argv[1:] or _ALL:
    _ALL[name]()
    print()
