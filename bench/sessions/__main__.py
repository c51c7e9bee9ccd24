"""`python -m bench.sessions [bodies] [floods] [gateway] [loops] [steps] [weights]`: runs all of them by default."""

from __future__ import annotations

import sys

from bench.sessions import bodies, floods, gateway, loops, steps, weights

_ALL = {
    "bodies": bodies.run,
    "floods": floods.run,
    "gateway": gateway.run,
    "loops": loops.run,
    "steps": steps.run,
    "weights": weights.run,
}

for name in sys.argv[1:] or _ALL:
    _ALL[name]()
    print()
