"""The image's check of vLLM covers what the strategy relies on."""

import importlib.util
import re
from pathlib import Path

import pytest

from strategies.frameworks.vllm import flags, strategy

ROOT = Path(__file__).parents[2]
PATTERNS = (
    r'\.(?:has|number)\("([a-z-]+)"\)',
    r'\.values\.get\("([a-z-]+)"',
    r'"([a-z-]+)" in self\.values',
    r'\("--([a-z-]+)"[,)]',
)


@pytest.fixture(scope="module")
def surface():
    """The module of the image, which needs no vLLM to be imported."""
    spec = importlib.util.spec_from_file_location("surface", ROOT / "images" / "vllm" / "muster_vllm" / "surface.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def used():
    """The flags that the strategy reads and writes, as its source has them."""
    texts = [Path(each.__file__).read_text() for each in (flags, strategy)]
    found = {name for pattern in PATTERNS for text in texts for name in re.findall(pattern, text)}
    found.discard("enable-")  # the beginning of many
    return {f"--{name}" for name in found | set(flags._SHORT.values()) | flags._SPREAD} | set(flags._SHORT)


def test_every_flag_that_the_strategy_reads_or_writes_is_checked_for(surface):
    assert {"--port", "--tensor-parallel-size", "--config", "-tp"} <= used(), "the patterns find them"
    assert used() - set(surface.FLAGS) == set()


def test_every_feature_is_checked_for_with_its_flag_and_env(surface):
    for flag, env, value in strategy._FEATURES.values():
        assert flag in surface.FLAGS
        assert surface.ENV[env] == value


def test_the_probes_path_is_checked_for(surface):
    assert strategy.probe("readinessProbe", 8000, tls=False)["httpGet"]["path"] in surface.ROUTES
