"""Row proofs: whether a version of a package refuses the line of each row, and takes its twin, asked of the package."""

from __future__ import annotations

import json
import shlex
import tempfile
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from muster.strategies import upstream

__all__ = ["PROBES", "Run", "broken"]

Row: TypeAlias = Mapping[str, str]
Run: TypeAlias = Callable[[Sequence[str | Path], object], str]
"""Runs a program where the version is installed: its words, and what it reads as JSON; returns what it prints."""
_Probe: TypeAlias = Callable[[Run, Sequence[tuple[str, Row]]], list[str]]

_REPOSITORY = Path(__file__).resolve().parents[2]
_CONTRACT = _REPOSITORY / "tests" / "contract"
_MODELS = _REPOSITORY / "e2e" / "models"
_GPUS = 8


def broken(package: str, version: str, run: Run, but: Collection[str] = ("none",)) -> Iterator[str]:
    """Yield a line for each row that a version does not bear out, with what it said.

    Args:
        package: whose rows.
        version: of it.
        run: asks it.
        but: proofs that are left out.
    """
    written: Sequence[Row] = tomllib.loads(upstream.text(package, "rows.toml", version))["row"]
    proven = [row for row in written if row.get("proof") not in but]
    answers = PROBES[package](run, [(row[side], row) for row in proven for side in ("refused", "taken")])
    for row, refused, taken in zip(proven, answers[::2], answers[1::2], strict=True):
        if not refused:
            yield f"{row['flag']}: it takes `{row['refused']}`, so that the finding is false"
        elif row.get("says", "") not in refused:
            yield f"{row['flag']}: it refuses `{row['refused']}` and does not say {row['says']!r}: {refused}"
        if taken:
            yield f"{row['flag']}: it refuses `{row['taken']}`: {taken}"


def _trl(run: Run, lines: Sequence[tuple[str, Row]]) -> list[str]:
    """Ask parser and configuration, and where a row says so the training of a tiny model."""
    with tempfile.TemporaryDirectory() as folder:
        run([_MODELS / "make.py", folder], None)
        cases = []
        for line, row in lines:
            env, (_, method, *argv) = _split(line)
            cases.append({"method": method, "argv": argv, "env": env, "proof": row.get("proof", "config")})
        asked = {"lines": cases, "models": folder, "output": f"{folder}/output", "path": str(_MODELS)}
        found: list[str] = json.loads(run([_CONTRACT / "proofs" / "trl_probe.py"], asked))
    return found


def _vllm(run: Run, lines: Sequence[tuple[str, Row]]) -> list[str]:
    asked = {"gpus": _GPUS, "lines": [shlex.split(line) for line, _ in lines]}
    found: list[str] = json.loads(run([_CONTRACT / "vllm" / "serve_probe.py"], asked))
    return found


def _torchtune(run: Run, lines: Sequence[tuple[str, Row]]) -> list[str]:
    cases = []
    for line, row in lines:
        _, (_, _, recipe, _, config, *items) = _split(line)
        cases.append({"recipe": recipe, "config": config, "items": items, "proof": row["proof"]})
    found: list[str] = json.loads(run([_CONTRACT / "proofs" / "recipe_probe.py"], cases))
    return found


def _launcher(run: Run, lines: Sequence[tuple[str, Row]]) -> list[str]:
    launches = {}
    for number, (line, _) in enumerate(lines):
        env, (program, *argv) = _split(line)
        launches[str(number)] = {"program": program, "argv": argv[program == "accelerate" :], "env": env}
    asked = {"launches": launches, "configs": {}}
    found: dict[str, dict[str, str]] = json.loads(run([_CONTRACT / "trl" / "launch_probe.py"], asked))
    return [f"{each['error']}: {each['message']}" if "message" in each else "" for each in found.values()]


def _split(line: str) -> tuple[dict[str, str], list[str]]:
    """Return the variables before a program, and its words."""
    words = shlex.split(line)
    start = next(index for index, word in enumerate(words) if "=" not in word)
    return dict(word.split("=", 1) for word in words[:start]), words[start:]


PROBES: Mapping[str, _Probe] = {
    "accelerate": _launcher,
    "torch": _launcher,
    "torchtune": _torchtune,
    "trl": _trl,
    "vllm": _vllm,
}
"""How the lines of a package are asked about: "" for each that it takes, else what it says."""
