"""`python -m bench.weights`: what the transport of weights by files costs.

PYTHONPATH=.:images/weights:images/guard $MUSTER_VLLM_PYTHON -m bench.weights
"""

from __future__ import annotations

import os
import time

from bench.weights import transport

print(f"{time.strftime('%Y-%m-%d %H:%M')}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
transport.run()
