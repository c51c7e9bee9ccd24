"""`python -m bench.weights`: what weights by files, their sampler and asynchronous steps cost.

PYTHONPATH=.:images/weights:images/guard $MUSTER_VLLM_PYTHON -m bench.weights [transport|served|loops]...
"""

from __future__ import annotations

import importlib
import os
import sys
import time

sys.modules["torchao"] = None  # type: ignore[assignment]  # as `samplers.NO_TORCHAO`
_PARTS = ("transport", "served", "loops")

wanted = sys.argv[1:] or [*_PARTS]
if unknown := [each for each in wanted if each not in _PARTS]:
    sys.exit(f"bench.weights: {unknown[0]} is no part; it has {', '.join(_PARTS)}")
for part in wanted:
    print(
        f"{part}: {time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True
    )
    importlib.import_module(f"bench.weights.{part}").run()
