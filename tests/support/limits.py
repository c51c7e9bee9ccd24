"""How many examples a property is tested with: many for cheap properties, few for those that build a world.

No example has a deadline (tests/conftest.py): a shared machine stalls now and then, and a property is not a benchmark.
"""

from __future__ import annotations

from hypothesis import settings

MANY = settings(max_examples=80)
SOME = settings(max_examples=50)
FEW = settings(max_examples=25)
