"""How many examples a property is tested with: many for cheap properties, few for those that build a world.

There is no deadline per example; a shared machine stalls now and then, and a property is not a benchmark.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

_common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

MANY = settings(max_examples=80, **_common)
SOME = settings(max_examples=50, **_common)
FEW = settings(max_examples=25, **_common)
