"""`python -m bench.sessions [bodies] [floods] [gateway] [loops] [moves] [steps] [weights]`: all but moves by default.

moves needs a GPU.
"""

from __future__ import annotations

import sys

from bench.sessions import bodies, floods, gateway, loops, moves, steps, weights

_ALL = {
    "bodies": bodies.run,
    "floods": floods.run,
    "gateway": gateway.run,
    "loops": loops.run,
    "moves": moves.run,
    "steps": steps.run,
    "weights": weights.run,
}

for name in sys.argv[1:] or [each for each in _ALL if each != "moves"]:
    _ALL[name]()
    print()
