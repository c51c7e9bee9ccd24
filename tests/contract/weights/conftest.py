"""A real server of vLLM for CPUs with our engine, under its supervisor and started again as the kubelet would."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import tomllib
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(__file__).parent / "programs"
IMAGES = ROOT / "images"
MODELS = ROOT / "e2e" / "models"
READY = 600.0
"""Seconds; vLLM needs 30 to 130 to start on a machine with nothing else to do."""


@pytest.fixture(scope="session")
def vllm():
    """The Python that has vLLM, TRL and torch."""
    found = shutil.which(os.environ.get("MUSTER_VLLM_PYTHON", ""))
    if found is None:
        pytest.fail("MUSTER_VLLM_PYTHON must name a python that has vllm installed; `make contract` does")
    return found


@pytest.fixture(scope="session")
def place(tmp_path_factory):
    """A folder with both packages as if they were installed: the plugin of vLLM, and what a .pth file imports."""
    folder = tmp_path_factory.mktemp("weights")
    project = tomllib.loads((IMAGES / "weights" / "pyproject.toml").read_text())["project"]
    told = folder / "plugin" / "muster_weights-0.1.0.dist-info"
    told.mkdir(parents=True)
    (told / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    ((group, entries),) = project["entry-points"].items()
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (told / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))
    (folder / "hook").mkdir()
    hooks = [IMAGES / each / f"muster_{each}.pth" for each in ("guard", "telemetry", "weights")]
    # These environments have the torchao of torchtune, which PEFT does not take; images/rl has none.
    lines = ['import sys; sys.modules["torchao"] = None', *(each.read_text().strip() for each in hooks)]
    (folder / "hook" / "sitecustomize.py").write_text("\n".join(lines))
    return folder


@pytest.fixture(scope="session")
def known(place):
    """Return the environment of a program: of a `trainer`, or of anything else."""

    def of(*, trainer=False, **more):
        packages = (IMAGES / each for each in ("weights", "rollouts", "guard", "telemetry"))
        paths = [*packages, MODELS, place / "plugin"]
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, [*paths, place / "hook"] if trainer else paths)),
            "MUSTER_WEIGHTS_FOLDER": str(place / "shared"),
            "HF_HUB_OFFLINE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            "VLLM_NO_USAGE_STATS": "1",
            **more,
        }

    return of


@pytest.fixture(scope="session")
def models(vllm, known, tmp_path_factory):
    """The folder with the untied model, the tied one, and the data of e2e/models/make.py."""
    folder = tmp_path_factory.mktemp("models")
    for command in (
        [MODELS / "make.py", folder],
        [PROGRAMS / "untied.py", folder / "untied"],
        [PROGRAMS / "untied.py", folder / "tied", "tied"],
    ):
        done = subprocess.run([vllm, *command], env=known(), capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
    return folder


class Sampler:
    """A server that is started again whenever it ends, as a container is."""

    def __init__(self, command, environment, port, folder):
        self.url = f"http://127.0.0.1:{port}"
        self.codes = []
        self.message = folder / "message"
        self.message.touch()
        self._command = command
        self._environment = environment | {"MUSTER_TERMINATION_LOG": str(self.message)}
        self._log = (folder / "server.log").open("w")
        self.log = folder / "server.log"
        self._ended = threading.Event()
        self._process = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            self._process = subprocess.Popen(
                self._command, env=self._environment, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
            )
            self.codes.append(self._process.wait())

    def get(self, path):
        """The JSON of a route, or None while the server does not answer."""
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=30) as answer:  # noqa: S310  # our own
                return json.loads(answer.read())
        except (OSError, ValueError):
            return None

    def kill(self):
        """Kill the engine of vLLM, as the kernel does when memory is short; its API server ends politely then."""
        for each in self._processes():
            with contextlib.suppress(OSError):
                if b"EngineCore" in Path(f"/proc/{each}/cmdline").read_bytes():
                    os.kill(each, signal.SIGKILL)

    def close(self):
        self._ended.set()
        while self._thread.is_alive():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._thread.join(0.2)
        self._log.close()

    def _processes(self):
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[3]) == self._process.pid:
                    yield int(stat.parent.name)


@pytest.fixture(scope="session")
def start(vllm, known, tmp_path_factory):
    """Start a sampler of a model, with more words for vLLM and more variables."""
    started = []

    def begin(model, *words, **more):
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        command = [
            vllm, "-m", "muster_weights.sampler.supervise",
            Path(vllm).with_name("vllm"), "serve", model, "--host", "127.0.0.1", "--port", str(port),
            "--dtype", "float32", "--enforce-eager", "--max-model-len", "256", "--served-model-name", "policy", model,
            "--weight-transfer-config", '{"backend": "muster_files"}', "--logprobs-mode", "processed_logprobs",
            "--max-logprobs", "-1", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048", *words,
        ]  # fmt: skip
        environment = known(
            VLLM_SERVER_DEV_MODE="1", VLLM_CPU_KVCACHE_SPACE="1", VLLM_CPU_OMP_THREADS_BIND="nobind",
            TORCH_COMPILE_DISABLE="1",  # its C++ takes minutes on a machine with other work, and changes nothing here
            **more,
        )  # fmt: skip
        started.append(Sampler([str(each) for each in command], environment, port, tmp_path_factory.mktemp("sampler")))
        return started[-1]

    yield begin
    for each in started:
        each.close()
