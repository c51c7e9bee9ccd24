"""`muster.strategies.frameworks.trl.flags.parse` and TRL's own parsers, on the same command lines."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from muster.strategies.frameworks.trl import flags

CASES = 4000
JUDGED = {"flag", "bool", "str", "int", "int|none", "float", "float|none"}
VALUES = {
    "bool": ["true", "False", "yes", "n", "1", "perhaps", ""],
    "int": ["3", "-1", "1_000", "2.5", "many", "none"],
    "float": ["1e-5", "-0.5", ".5", "-1e-5", "much", "None"],
    "str": ["a", "a/b", "-", "", "-3", "-a b", '{"a": 1}', "none", "é"],
}
STRANGE = [
    "--no-such",
    "--no_such=1",
    "-x",
    "-q",
    "--num_machines",
    "--num-processes=2",
    "--multi_gpu",
    "--tee",
    "--cpu",
]
LOOSE = ["stray", "-7", "-.5", "--", "-a b", "-", ""]


def a_value(spec, rng):
    if spec.choices:
        return rng.choice([*spec.choices, "elsewhere"])
    return rng.choice(VALUES[spec.kind.partition("|")[0]])


def a_flag(method, rng):
    """A known flag in one of its spellings, now and then cut short, with as many values as it likes or not."""
    spellings = [s for s in flags.script(method).spellings if s not in ("-h", "--help")]
    spelling = rng.choice(spellings)
    spec = flags.spec(method, spelling)
    if spec.kind not in JUDGED:
        return []
    if rng.random() < 0.2:
        spelling = spelling[: rng.randint(7, max(7, len(spelling)))]
    if spec.nargs == 0:
        return [rng.choice([spelling, spelling, f"{spelling}=true"])]
    values = [a_value(spec, rng) for _ in range(rng.choice([0, 1, 1, 1, 1, 2]))]
    if values and rng.random() < 0.3:
        return [f"{spelling}={values[0]}", *values[1:]]
    return [spelling, *values]


def a_command_line(config, rng):
    method = rng.choice(sorted(flags.methods()))
    pieces = [
        rng.choices((a_flag(method, rng), [rng.choice(STRANGE)], [rng.choice(LOOSE)]), weights=(8, 2, 1))[0]
        for _ in range(rng.randint(1, 6))
    ]
    for _ in range(rng.choices((0, 1, 2), weights=(20, 2, 1))[0]):
        pieces.insert(rng.randint(0, len(pieces)), ["--config", config])
    if rng.random() < 0.01:
        pieces.append(["--config"])
    return [method, *itertools.chain.from_iterable(pieces)]


@pytest.fixture(scope="module")
def readings(run_with_trl, tmp_path_factory):
    config = tmp_path_factory.mktemp("config") / "config.yaml"
    config.write_text("{}")
    rng = random.Random(116)  # noqa: S311 - the same command lines in every run
    lines = [a_command_line(str(config), rng) for _ in range(CASES)]
    return list(zip(lines, json.loads(run_with_trl("parse_probe.py", request=lines)), strict=True))


def faults_of(parsed):
    """What TRL's parser would stop at; what `accelerate launch` stops at comes later."""
    return [fault for fault in parsed.faults if fault.index not in parsed.launcher_tokens]


def same(ours, theirs):
    """Whether a value of ours stands for the converted value of theirs."""
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return ours is theirs
    if theirs is None:
        return ours.lower() in ("none", "null")
    return ours == theirs if isinstance(theirs, str) else float(ours) == theirs


def test_both_refuse_the_same_command_lines(readings):
    wrong = [
        (line, real) for line, real in readings if bool(faults_of(flags.parse(line[0], line[1:]))) != ("error" in real)
    ]
    assert wrong == []
    assert 500 < sum("error" in real for _, real in readings) < CASES - 500


def test_both_read_the_same_values(readings):
    wrong = []
    for line, real in readings:
        ours = flags.parse(line[0], line[1:]).values
        theirs = real.get("values", ours)
        if ours.keys() != theirs.keys() or not all(same(ours[name], theirs[name]) for name in ours):
            wrong.append((line, ours, theirs))
    assert wrong == []


def test_what_the_script_leaves_over_is_what_we_call_foreign(readings):
    wrong = []
    for line, real in readings:
        parsed = flags.parse(line[0], line[1:])
        ours = [token for _, token in sorted([*parsed.unknown, *parsed.launcher, *parsed.positionals])]
        theirs = real.get("extras", ours)
        rest = iter(theirs)
        if not all(token in rest for token in ours) or {t for t in theirs if t in STRANGE} - set(ours):
            wrong.append((line, ours, theirs))
    assert wrong == []
