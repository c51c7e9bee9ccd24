"""The committed words of the supported version are the installed vLLM's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from muster.strategies import upstream
from muster.strategies.frameworks.vllm import vllm_flags
from tests.contract.vllm import words

pytestmark = pytest.mark.thorough


def test_the_words_of_the_supported_version_are_those_of_the_installed_vllm(run_with_vllm):
    root = Path(run_with_vllm("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    table = json.loads(upstream.text("vllm", "words.json"))
    ours = {
        flag: {word for word, known in table[flag].items() if vllm_flags.version() in known}
        for flag in table
        if flag != "env"
    }
    assert ours == words.words(root)
    installed = dict(words.variables(root))
    assert all(table["env"][name] == kind for name, kind in installed.items() if name in table["env"])
    assert installed.keys() >= {"VLLM_PORT", "VLLM_WORKER_MULTIPROC_METHOD"}
