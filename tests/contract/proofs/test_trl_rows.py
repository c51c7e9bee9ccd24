"""TRL itself refuses the refused line of each of its rows, and takes the twin."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.frameworks import trl_rows

HERE = Path(__file__).parent
MODELS = HERE.parents[2] / "e2e" / "models"
PROVEN = [row for row in trl_rows.ROWS if row.get("proof") != "none"]


def case(line, proof):
    words = shlex.split(line)
    start = words.index("trl")
    env = dict(word.split("=", 1) for word in words[:start])
    return {"method": words[start + 1], "argv": words[start + 2 :], "env": env, "proof": proof}


@pytest.fixture(scope="module")
def ask(python, tmp_path_factory):
    """Ask the installed TRL about lines: how each is refused, "" for one that is taken."""
    folder = tmp_path_factory.mktemp("proofs")
    subprocess.run([python, MODELS / "make.py", folder], check=True, capture_output=True, timeout=120)

    def asked(cases):
        request = {"lines": cases, "models": str(folder), "output": str(folder / "output"), "path": str(MODELS)}
        done = subprocess.run(
            [python, HERE / "trl_probe.py"],
            input=json.dumps(request), capture_output=True, text=True, timeout=900, check=False, cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return asked


@pytest.fixture(scope="module")
def answers(ask):
    cases = [case(row[side], row.get("proof", "config")) for row in PROVEN for side in ("refused", "taken")]
    found = ask(cases)
    return dict(zip(range(len(PROVEN)), zip(found[::2], found[1::2], strict=True), strict=True))


@pytest.mark.parametrize("number", range(len(PROVEN)), ids=lambda number: PROVEN[number]["refused"])
def test_upstream_refuses_the_line_and_takes_its_twin(answers, number):
    refused, taken = answers[number]

    assert refused, f"TRL takes {PROVEN[number]['refused']}: the row is wrong"
    assert taken == "", f"TRL refuses {PROVEN[number]['taken']}: {taken}"


def test_a_wrong_row_is_found(ask):
    taken, refused = ask([case("trl sft --save_steps 100", "config"), case("trl sft --save_steps 1.5", "config")])

    assert taken == "", "a row that says that TRL refuses this would be wrong"
    assert refused
