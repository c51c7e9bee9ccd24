"""The committed table is the installed vLLM's, and command lines are read as vLLM's own parser reads them."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from muster.strategies.frameworks.vllm import serve_arguments, vllm_flags

pytestmark = pytest.mark.thorough

CASES = 1500
JUDGED = {"flag", "str", "str|none", "int", "int|none", "float", "float|none", "count", "count|none", "count|auto"}
VALUES = {
    "int": ["3", "-1", "1_000", "2.5", "many", "None", ""],
    "float": ["1e-5", ".5", "much", "None", "3"],
    "str": ["a", "a/b", "-", "", "-3", "-a b", "None", "é"],
    "count": ["16k", "2K", "1.5k", "1.5K", "3", "k", "auto", "-1", "None"],
}
STRANGE = ["--no-such", "--no_such=1", "-x", "-tp4", "--disable-log-requests", "--t", "--data-par", "-t", "-d", "-n3"]
# help ends the program, --config reads a file, and the others have actions of their own.
LEFT_OUT = {"help", "config", "optimization-level", "model", "lora-modules"}


def a_flag(rng):
    """A known flag in one of its spellings, now and then cut short, with as many values as it likes or not."""
    spelling = rng.choice(vllm_flags.every().spellings)
    spec = vllm_flags.known(spelling)
    if spec.kind not in JUDGED or spec.name in LEFT_OUT:
        return []
    if rng.random() < 0.2:
        spelling = spelling[: rng.randint(6, max(6, len(spelling)))]
    if spelling.startswith("--") and rng.random() < 0.2:
        spelling = spelling.replace("-", "_").replace("__", "--", 1)
    if spec.nargs == 0:
        return [rng.choice([spelling, spelling, f"{spelling}=true"])]
    pool = [*spec.choices, "elsewhere"] if spec.choices else VALUES[spec.kind.partition("|")[0]]
    values = [rng.choice(pool) for _ in range(rng.choice([0, 1, 1, 1, 1, 2]))]
    if values and rng.random() < 0.3:
        return [f"{spelling}={values[0]}", *values[1:]]
    return [spelling, *values]


def a_command_line(rng):
    pieces = [a_flag(rng) for _ in range(rng.randint(0, 3))]
    pieces += [["m"]] if rng.random() < 0.7 else []
    pieces += [[rng.choice(STRANGE)]] if rng.random() < 0.2 else []
    pieces += [["stray"]] if rng.random() < 0.1 else []
    rng.shuffle(pieces)
    return list(itertools.chain(*pieces))


def refuses(parsed):
    return bool(parsed.faults or parsed.unknown or len(parsed.positionals) > 1)


def _has_rule(word):
    """Whether vLLM treats a flag in a way of its own before it parses."""
    return word.startswith("--served") or word.partition("=")[0] == "--model"


@pytest.fixture(scope="module")
def both(run_with_vllm):
    rng = random.Random(15)  # noqa: S311 - the same command lines in every run
    lines = [a_command_line(rng) for _ in range(CASES)]
    lines = [line for line in lines if not any(_has_rule(word.replace("_", "-")) for word in line)]
    answers = json.loads(run_with_vllm("parse_probe.py", request={"serve": lines, "module": lines[:200]}))
    return list(zip(lines, answers["serve"], strict=True)), list(zip(lines, answers["module"], strict=False))


def test_what_vllm_refuses_is_a_finding_and_nothing_else_is(both):
    wrong = [(line, theirs) for line, theirs in both[0] if ("error" in theirs) != refuses(serve_arguments.parse(line))]
    assert not wrong, json.dumps(wrong[:20])
    assert sum("error" in theirs for _, theirs in both[0]) > CASES / 10


def test_values_are_those_that_vllm_reads(both):
    for line, theirs in (*both[0], *both[1]):
        if "error" in theirs:
            continue
        parsed = serve_arguments.parse(line)
        given = {name.replace("-", "_") for name in (*parsed.values, *parsed.off)}
        seen = {name for name, value in theirs.items() if name not in {"subparser", "model_tag"} and value != []}
        assert given == seen, line
        assert [word for _, word in parsed.positionals] == [tag for tag in (theirs["model_tag"],) if tag is not None], (
            line
        )
        for name in parsed.values:
            value, kind = theirs[name.replace("-", "_")], vllm_flags.known(f"--{name}").kind
            if kind == "int":
                assert int(parsed.values[name]) == value, line
        assert all(theirs[name.replace("-", "_")] is False for name in parsed.off), line


def test_the_modules_take_a_model_that_they_do_not_read(run_with_vllm):
    request = {"serve": [["--model", "m"], ["m", "--config=f.yaml"]], "module": [["m"], ["--model", "m"]]}
    answers = json.loads(run_with_vllm("parse_probe.py", request=request))
    assert [each.get("model") for each in answers["module"]] == [None, "m"]
    assert answers["serve"][0]["model_tag"] == "m"
    assert answers["serve"][1]["config"] == "f.yaml"


def test_members_and_words_of_json_that_vllm_refuses_are_those_that_the_table_lacks(run_with_vllm):
    flags = map(vllm_flags.known, vllm_flags.every().completions("--"))
    table = {flag.name: flag.members for flag in flags if flag.members}
    lines = [["m", f"--{name}", json.dumps({"zzz": 1})] for name in table]
    lines += [
        ["m", f"--{name}", json.dumps({each: "zzz"})] for name, held in table.items() for each in held if held[each]
    ]
    answers = json.loads(run_with_vllm("parse_probe.py", request={"serve": lines, "module": []}))
    taken = [line for line, theirs in zip(lines, answers["serve"], strict=True) if "error" not in theirs]
    assert len(lines) > 2 * len(table)
    assert not taken
