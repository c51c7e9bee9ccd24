"""Upstream itself refuses the refused line of each row that has a proof, by the words of `says`, and takes its twin."""

from __future__ import annotations

import pytest

from muster.strategies import upstream
from tools.upstream import row_proofs
from tools.upstream.known import PACKAGES

SLOW = [pytest.param(name, ("none", "config"), marks=pytest.mark.thorough) for name in ("trl", "vllm")]
QUICK = [(name, ("none", "trainer")) for name in ("trl", "torchtune", "torch", "accelerate")]
WRONG = """[[row]]
flag = "save_steps"
refused = "trl sft --save_steps 100"
taken = "trl sft --save_steps 1.5"
"""


def broken(name, but):
    shipped = upstream.shipped(name)
    return list(row_proofs.broken(name, shipped, lambda argv, asked: PACKAGES[name].run(shipped, argv, asked), but))


@pytest.mark.parametrize(("name", "but"), [*QUICK, *SLOW])
def test_upstream_refuses_what_its_rows_say(name, but):
    assert broken(name, but) == []


def test_a_wrong_row_is_found(monkeypatch):
    monkeypatch.setattr(upstream, "text", lambda *_: WRONG)
    taken, refused = broken("trl", ())
    assert taken == "save_steps: it takes `trl sft --save_steps 100`, so that the finding is false"
    assert refused.startswith("save_steps: it refuses `trl sft --save_steps 1.5`: ")
