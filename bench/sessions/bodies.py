"""How long a tenant waits for a small answer while another one sends large bodies: read in the loop, and beside it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import zstandard

from bench.sessions.served import EMPTY, Served, serve
from muster.sessions.wire.schema import messages

__all__ = ["run"]

_SECONDS = 4.0
_CONTEXT = 32_768
_CLI = "from muster.sessions.cli.main import main; import sys; sys.exit(main())"
_READ = {
    "in the loop": ("-c", f"from muster.sessions.readers import pool; pool.LARGE = 64 << 20; {_CLI}"),
    "beside it": ("-c", _CLI),
}


def run() -> None:
    """Print the milliseconds that a small answer took, by what the other tenant sent."""
    print(f"milliseconds of get_server_capabilities for one tenant while another sends bodies for {_SECONDS:.0f} s:")
    print(f"  {'':44} {'median':>8} {'99 %':>8} {'most':>8}   bodies answered")
    for how, program in _READ.items():
        with tempfile.TemporaryDirectory() as folder:
            root, base = Path(folder), Path(folder) / "base"
            base.mkdir()
            (base / "config.json").write_text(json.dumps({"max_position_embeddings": _CONTEXT}), encoding="utf-8")
            with serve(root / "state", base, *EMPTY, program=program) as gateway:
                _measure(how, gateway, _other(root / "state"))


def _other(root: Path) -> str:
    command = [sys.executable, "-m", "muster.sessions.cli", "keys", "create", "other", "--root", str(root)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603  # our own


def _bodies() -> dict[str, tuple[str, bytes, dict[str, str]]]:
    head = b'{"sampling_session_id": "x", "seq_id": 0, "sampling_params": {}, "prompt": {"chunks": [{"tokens": ['
    message = messages.ForwardBackwardRequest(model_id="x", seq_id=1, loss_fn="cross_entropy")
    for _ in range(1024):
        datum = message.data.add()
        datum.model_input.add().encoded_text.tokens = bytes(4 * 4000)
        datum.loss_fn_inputs["weights"].dense = bytes(4 * 4000)
    whole = message.SerializeToString()
    protobuf = {"Content-Type": "application/x-protobuf"}
    return {
        "nothing": ("", b"", {}),
        "JSON of 1 MiB of empty lists": ("create_session", b'{"tags": [' + b"[]," * 349_000 + b"0]}", {}),
        "a prompt of 4 MiB of short numbers": ("asample", head + b"0," * (2 << 20) + b"0]}]}}", {}),
        f"a pass of {len(whole) >> 20} MiB": ("forward_backward", whole, protobuf),
        "the same, compressed": (
            "forward_backward",
            zstandard.compress(whole),
            {**protobuf, "Content-Encoding": "zstd"},
        ),
    }


def _measure(how: str, gateway: Served, other: str) -> None:
    for name, (route, content, headers) in _bodies().items():
        with _sending(gateway, route, content, headers) as answered:
            took = sorted(_asked(gateway, other))
        figures = [took[len(took) // 2], took[len(took) * 99 // 100], took[-1]]
        print(f"  {how + ', ' + name:44} {' '.join(f'{1e3 * each:8.1f}' for each in figures)}   {len(answered)}")


def _asked(gateway: Served, key: str) -> Iterator[float]:
    with httpx.Client(base_url=gateway.url, headers={"X-API-Key": key}, timeout=60) as http:
        until = time.perf_counter() + _SECONDS
        while (began := time.perf_counter()) < until:
            http.get("/api/v1/get_server_capabilities")
            yield time.perf_counter() - began
            time.sleep(0.002)


@contextmanager
def _sending(gateway: Served, route: str, content: bytes, headers: dict[str, str]) -> Iterator[list[int]]:
    """Send a body again and again on one connection, as long as something is measured."""
    over, answered = threading.Event(), list[int]()

    def send() -> None:
        with httpx.Client(base_url=gateway.url, headers={"X-API-Key": gateway.key, **headers}, timeout=60) as http:
            while route and not over.is_set():
                answered.append(http.post(f"/api/v1/{route}", content=content).status_code)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        time.sleep(0.5 if route else 0)
        yield answered
    finally:
        over.set()
        thread.join()
