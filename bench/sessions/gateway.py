"""What a request costs the Gateway alone: HTTP, the journal on disk, a future; engines that do nothing.

Routes are measured in turns within one run, from one that touches nothing to one that is kept, executed and polled.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import httpx
import tinker
from tinker import types

from bench import figures
from bench.sessions.served import EMPTY, made, serve, spent

__all__ = ["run"]

_ROUNDS, _CALLS = 7, 40


def run() -> None:
    """Print requests per second and processor time per request."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        base = made(root, empty=True)
        with serve(root / "state", base, *EMPTY) as gateway:
            with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service:
                _measure(gateway.pid, gateway.url, gateway.key, service, str(base))
            print(f"resident memory of the Gateway afterwards: {gateway.resident:.0f} MiB")


def _measure(pid: int, url: str, key: str, service: tinker.ServiceClient, base: str) -> None:
    client = service.create_lora_training_client(base, rank=4).result()
    sampler = service.create_sampling_client(base_model=base).result()
    prompt, params = types.ModelInput.from_ints([1, 2, 3]), types.SamplingParams(max_tokens=1)
    datum = types.Datum(prompt, {"target_tokens": [2, 3, 4], "weights": [1.0] * 3})
    http = httpx.Client(base_url=url, headers={"X-API-Key": key})
    calls = {
        "healthz, which touches nothing": lambda: [http.get("/api/v1/healthz") for _ in range(_CALLS)],
        "get_server_capabilities, the key only": lambda: [
            http.get("/api/v1/get_server_capabilities") for _ in range(_CALLS)
        ],
        "forward_backward, one after the other": lambda: [
            client.forward_backward([datum], "cross_entropy").result() for _ in range(_CALLS)
        ],
        "forward_backward, sent together": lambda: [
            each.result() for each in [client.forward_backward([datum], "cross_entropy") for _ in range(_CALLS)]
        ],
        "sample, sent together": lambda: [
            each.result() for each in [sampler.sample(prompt, 1, params) for _ in range(_CALLS)]
        ],
    }
    rates: dict[str, list[float]] = {name: [] for name in calls}
    costs: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(_ROUNDS + 1):
        for name, call in calls.items():
            before, began = spent(pid), time.perf_counter()
            call()
            if turn:
                rates[name].append(_CALLS / (time.perf_counter() - began))
                costs[name].append((spent(pid) - before) / _CALLS * 1e3)
    http.close()
    print(f"the Gateway with engines that do nothing; {_ROUNDS} rounds of {_CALLS} calls in turns, median [low..high]")
    for name in calls:
        print(f"  {name:40} {figures.rounds(rates[name])!s:>24}/s {figures.rounds(costs[name])!s:>24} ms of processor")
