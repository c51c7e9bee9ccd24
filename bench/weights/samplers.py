"""A server of vLLM for CPUs with our engine, which lives as long as a measurement, and a proxy that makes it slow."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

__all__ = ["NO_TORCHAO", "Serving", "environment", "serving", "slowed", "worked"]

NO_TORCHAO = 'import sys; sys.modules["torchao"] = None'
"""The environments of the tests have the torchao of torchtune, which PEFT does not take; images/rl has none."""

_IMAGES = Path(__file__).parents[2] / "images"
_READY = 900.0
_FLAGS = (
    "--dtype", "float32", "--enforce-eager", "--max-model-len", "256", "--no-enable-chunked-prefill",
    "--max-num-batched-tokens", "2048", "--logprobs-mode", "processed_logprobs", "--max-logprobs", "-1",
    "--weight-transfer-config", '{"backend": "muster_files"}',
)  # fmt: skip


class Serving(NamedTuple):
    """A server: its URL, and the number that the kernel gave to the session of its processes."""

    url: str
    session: int


def worked(session: int) -> float:
    """Return the seconds for which the processes of a session have had a core until now."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            found = stat.read_text().rpartition(")")[2].split()
            ticks += int(found[11]) + int(found[12]) if int(found[3]) == session else 0
    return ticks / os.sysconf("SC_CLK_TCK")


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of both roles, whose packages are those of this repository, as if they were installed.

    Args:
        folder: an empty one of the measurement's own; its `shared` is that of the weights.
    """
    project = tomllib.loads((_IMAGES / "weights" / "pyproject.toml").read_text())["project"]
    told = folder / "plugin" / "muster_weights-0.1.0.dist-info"
    told.mkdir(parents=True, exist_ok=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (told / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    (folder / "hook").mkdir(exist_ok=True)
    (folder / "hook" / "sitecustomize.py").write_text(NO_TORCHAO)
    paths = [
        *(_IMAGES / each for each in ("weights", "rollouts", "guard", "telemetry")),
        folder / "plugin",
        folder / "hook",
    ]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([*map(str, paths), os.environ.get("PYTHONPATH", "")]),
        "MUSTER_WEIGHTS_FOLDER": str(folder / "shared"),
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "TORCH_COMPILE_DISABLE": "1",
    }


@contextlib.contextmanager
def serving(model: Path, known: dict[str, str], log: Path, *flags: str) -> Iterator[Serving]:
    """Serve a model, and yield the server once it is ready.

    Args:
        model: its folder.
        known: see `environment`.
        log: what the server prints.
        flags: further ones of vLLM.

    Raises:
        RuntimeError: it was not ready in time.
    """
    with socket.create_server(("127.0.0.1", 0)) as found:
        port = str(found.getsockname()[1])
    program = Path(sys.executable).with_name("vllm")
    command = [sys.executable, "-m", "muster_weights.sampler.supervise", program, "serve", model]
    with log.open("w") as out:
        server = subprocess.Popen(  # noqa: S603  # the program of this environment
            [*map(str, command), "--host", "127.0.0.1", "--port", port, *_FLAGS, *flags],
            env=known, stdout=out, stderr=out, start_new_session=True,
        )  # fmt: skip
    try:
        url = f"http://127.0.0.1:{port}"
        _ready(server, url, log)
        yield Serving(url, server.pid)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@contextlib.contextmanager
def slowed(url: str, seconds: float) -> Iterator[str]:
    """Yield the URL of a proxy, behind which each completion takes so many seconds longer, without work for a core."""

    class Passing(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._passed(None)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            if self.path == "/v1/completions":
                time.sleep(seconds)
            self._passed(body)

        def _passed(self, body: bytes | None) -> None:
            kind = {"content-type": "application/json"} if body else {}
            request = urllib.request.Request(f"{url}{self.path}", body, kind, method=self.command)  # noqa: S310  # our own
            try:
                with urllib.request.urlopen(request, timeout=600) as answer:  # noqa: S310  # as above
                    self._answered(answer.status, answer.read())
            except urllib.error.HTTPError as fault:
                self._answered(fault.code, fault.read())

        def _answered(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Passing) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}"
        proxy.shutdown()


def _ready(server: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _READY
    while time.monotonic() < end and server.poll() is None:
        with contextlib.suppress(OSError):
            urllib.request.urlopen(f"{url}/muster_weights", timeout=30).close()  # noqa: S310  # our own
            return
        time.sleep(0.5)
    raise RuntimeError(f"the server is not ready; it printed {log.read_text()[-2000:]}")
