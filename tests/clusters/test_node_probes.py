from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

from e2e.images.probe import probe

_PROGRAM = probe.__file__
_MEETING = {"PET_NNODES": "2", "PET_MASTER_ADDR": "localhost"}


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def started(*arguments, **environment):
    command = [sys.executable, _PROGRAM, *arguments]
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PET_", "MASTER_"))}
    return subprocess.Popen(command, env={**clean, **environment}, stdout=subprocess.PIPE, text=True)


def said(process):
    out, _ = process.communicate(timeout=20)
    return {line["probe"]: line for line in map(json.loads, out.splitlines())}


@pytest.mark.parametrize(
    ("arguments", "environment", "expected"),
    [
        ([], {}, None),
        ([], {"MASTER_ADDR": "a"}, ("a", 29500)),
        ([], {"MASTER_ADDR": "a", "PET_MASTER_ADDR": "b", "PET_MASTER_PORT": "7"}, ("b", 7)),
        ([], {"PET_MASTER_ADDR": "b", "PET_RDZV_ENDPOINT": "c:8"}, ("c", 8)),
        (["--rdzv-endpoint=d:9"], {"PET_RDZV_ENDPOINT": "c:8"}, ("d", 9)),
        (["run", "--rdzv_endpoint", "e:1", "recipe"], {}, ("e", 1)),
    ],
)
def test_the_coordinator_is_the_one_that_a_launcher_would_take(arguments, environment, expected):
    assert probe.coordinator(arguments, environment) == expected


@pytest.mark.parametrize(
    ("program", "arguments", "nodes", "rank"),
    [
        ("torchrun", ["-m", "trl.scripts.sft"], 2, 1),
        ("torchrun", ["--nnodes=3", "train.py"], 3, 1),
        ("trl", ["sft"], 1, 0),
        ("trl", ["sft", "--num_machines", "2", "--machine_rank", "1"], 2, 1),
    ],
)
def test_only_torchrun_reads_what_trainer_injects(program, arguments, nodes, rank):
    injected = {"PET_NNODES": "2", "PET_NODE_RANK": "1"}

    assert probe.expected(program, arguments, injected) == nodes
    assert probe.rank(program, arguments, injected) == rank


def test_two_ranks_meet_and_each_hears_who_came():
    port = str(free_port())
    both = [started("train.py", **_MEETING, PET_MASTER_PORT=port, PET_NODE_RANK=str(rank)) for rank in (1, 0)]

    told = [said(each) for each in both]

    assert [each["met"]["came"] for each in told] == [[0, 1], [0, 1]]
    assert [each["met"]["rank"] for each in told] == [1, 0]
    assert [each.returncode for each in both] == [0, 0]


def test_two_pods_with_one_rank_are_a_failure():
    port = str(free_port())
    both = [started(**{**_MEETING, "PET_NNODES": "3"}, PET_MASTER_PORT=port, PET_NODE_RANK=str(r)) for r in (0, 1, 1)]

    assert [said(each)["met"]["came"] for each in both] == [[0, 1, 1]] * 3
    assert [each.returncode for each in both] == [1, 1, 1]


def test_without_a_coordinator_it_says_what_it_was_given_and_ends():
    process = started("--flag", STORAGE_URI="hf://a/b")

    told = said(process)

    assert told.keys() == {"started"}
    assert told["started"]["argv"][1:] == ["--flag"]
    assert told["started"]["env"]["STORAGE_URI"] == "hf://a/b"
    assert process.returncode == 0
