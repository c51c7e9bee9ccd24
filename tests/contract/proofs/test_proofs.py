"""Upstream itself refuses the refused line of each row that has a proof, by the words of `says`, and takes its twin.

One process for each package, since importing torch is what takes the time.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest

from muster.strategies import upstream

HERE = Path(__file__).parent
MODELS = HERE.parents[2] / "e2e" / "models"
LAUNCHES = HERE.parent / "trl" / "launch_probe.py"
WRONG = {"flag": "save_steps", "refused": "trl sft --save_steps 100", "taken": "trl sft --save_steps 200"}


def rows(package, *proofs):
    found = tomllib.loads(upstream.text(package, "rows.toml"))["row"]
    return [row for row in found if row.get("proof", "config") in proofs]


def split(line):
    """The variables in front of a program, and its words."""
    words = shlex.split(line)
    start = next(index for index, word in enumerate(words) if "=" not in word)
    return dict(word.split("=", 1) for word in words[:start]), words[start:]


@pytest.fixture(scope="session")
def answers(python, tmp_path_factory):
    """Run a program of upstream on one request, without a GPU, a network or settings of this machine."""

    def ask(probe, request, folder=None):
        folder = folder or tmp_path_factory.mktemp("proofs")
        done = subprocess.run(
            [python, probe],
            input=json.dumps(request), capture_output=True, text=True, timeout=1_800, check=False, cwd=folder,
            env={"PATH": "/usr/bin:/bin", "HOME": str(folder), "CUDA_VISIBLE_DEVICES": "", "HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return ask


def unproven(row, refused, taken):
    """What is wrong with a row by the answers of upstream, "" for nothing."""
    if not refused or row.get("says", "") not in refused:
        return f"upstream does not refuse `{row['refused']}` so that it says {row.get('says')!r}: {refused!r}"
    return f"upstream refuses `{row['taken']}`: {taken}" if taken else ""


def of_trl(answers, python, folder, judged, proof):
    subprocess.run([python, MODELS / "make.py", folder], check=True, capture_output=True, timeout=600)
    cases = []
    for row in judged:
        for side in ("refused", "taken"):
            env, (_, method, *argv) = split(row[side])
            cases.append({"method": method, "argv": argv, "env": env, "proof": proof})
    request = {"lines": cases, "models": str(folder), "output": str(folder / "output"), "path": str(MODELS)}
    found = answers(HERE / "trl_probe.py", request, folder)
    return [unproven(*each) for each in zip(judged, found[::2], found[1::2], strict=True)]


@pytest.mark.parametrize("proof", ["config", pytest.param("trainer", marks=pytest.mark.thorough)])
def test_trl_refuses_what_its_rows_say(answers, python, tmp_path, proof):
    assert not list(filter(None, of_trl(answers, python, tmp_path, rows("trl", proof), proof)))


def test_a_wrong_row_is_found(answers, python, tmp_path):
    (found,) = of_trl(answers, python, tmp_path, [WRONG], "config")

    assert "does not refuse `trl sft --save_steps 100`" in found


def test_torchtune_refuses_what_its_rows_say(answers):
    judged, cases = rows("torchtune", "reader", "recipe"), []
    for row in judged:
        for side in ("refused", "taken"):
            _, _, recipe, _, config, *items = shlex.split(row[side])
            cases.append({"recipe": recipe, "config": config, "items": items, "proof": row["proof"]})
    found = answers(HERE / "recipe_probe.py", cases)

    assert not list(filter(None, map(unproven, judged, found[::2], found[1::2])))


def test_torchrun_and_accelerate_refuse_what_their_rows_say(answers):
    judged = [*rows("torch", "launcher", "config"), *rows("accelerate", "launcher", "config")]
    launches = {}
    for row in judged:
        for side in ("refused", "taken"):
            env, (program, *argv) = split(row[side])
            argv = argv[1:] if program == "accelerate" else argv
            launches[f"{row['flag']} {side} {row[side]}"] = {"program": program, "argv": argv, "env": env}
    found = answers(LAUNCHES, {"launches": launches, "configs": {}})
    ended = [f"{each['error']}: {each['message']}" if "message" in each else "" for each in found.values()]

    assert not list(filter(None, map(unproven, judged, ended[::2], ended[1::2])))
