"""`python -m bench.sessions [floods] [gateway] [loops] [steps] [weights]`: runs these five by default."""

from __future__ import annotations

import sys

from bench.sessions import floods, gateway, loops, steps, weights

_ALL = {"floods": floods.run, "gateway": gateway.run, "loops": loops.run, "steps": steps.run, "weights": weights.run}

for name in sys.argv[1:] or _ALL:
    _ALL[name]()
    print()
