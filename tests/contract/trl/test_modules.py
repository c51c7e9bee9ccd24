"""Which of TRL's modules python and torchrun can run."""

from __future__ import annotations

import json

from muster.strategies.frameworks.trl import flags

FIND = "import importlib.util as u, json, sys; print(json.dumps([bool(u.find_spec(n)) for n in sys.argv[1:]]))"


def test_every_method_is_a_module_that_torchrun_can_run(run_with_trl):
    names = [f"trl.scripts.{method}" for method in sorted(flags.methods())]
    assert all(json.loads(run_with_trl("-c", FIND, *names)))


def test_trl_cannot_be_run_as_a_module(run_with_trl):
    assert json.loads(run_with_trl("-c", FIND, "trl.__main__", "trl.cli.__main__", "trl.cli.main")) == [
        False,
        False,
        True,
    ]
