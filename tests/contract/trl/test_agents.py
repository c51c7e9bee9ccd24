"""Real torchrun agents on loopback that start `env`: what the workers are told about the rendezvous."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess

import pytest

WAIT = 240


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def read_environment(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


def two_nodes(trl_python, *nodes):
    """Start an agent per entry of `nodes` (its PET_* values) and return what each one's only worker was given."""
    command = [trl_python, "-m", "torch.distributed.run", "--no-python", "env"]
    common = {
        "PATH": os.environ["PATH"],
        "TMPDIR": os.environ["TMPDIR"],
        "PET_NNODES": str(len(nodes)),
        "PET_NPROC_PER_NODE": "1",
    }
    with contextlib.ExitStack() as stack:
        agents = []
        for node in nodes:
            agent = subprocess.Popen(
                command, env=common | node, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            stack.enter_context(agent)
            stack.callback(agent.kill)
            agents.append(agent)
        outputs = [agent.communicate(timeout=WAIT) for agent in agents]
    assert [agent.returncode for agent in agents] == [0] * len(agents), outputs
    return [read_environment(output) for output, _ in outputs]


@pytest.fixture(scope="module")
def static(trl_python):
    endpoint = f"127.0.0.1:{free_port()}"
    wrong = {"PET_MASTER_ADDR": "wrong.invalid", "PET_MASTER_PORT": "1", "PET_RDZV_ENDPOINT": endpoint}
    return endpoint, two_nodes(trl_python, *({**wrong, "PET_NODE_RANK": rank} for rank in ("0", "1")))


@pytest.fixture(scope="module")
def elastic(trl_python):
    meeting = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ID": "job", "PET_RDZV_ENDPOINT": f"127.0.0.1:{free_port()}"}
    wrong = {"PET_MASTER_ADDR": "wrong.invalid", "PET_MASTER_PORT": "1", "PET_NODE_RANK": "7"}
    return two_nodes(trl_python, *({**wrong, **meeting} for _ in range(2)))


def test_an_endpoint_corrects_a_wrong_master_address_for_agents_and_workers(static):
    endpoint, workers = static
    assert [f"{worker['MASTER_ADDR']}:{worker['MASTER_PORT']}" for worker in workers] == [endpoint] * 2


def test_in_a_static_rendezvous_the_node_rank_is_the_rank(static):
    _, workers = static
    assert [(worker["RANK"], worker["GROUP_RANK"], worker["WORLD_SIZE"]) for worker in workers] == [
        ("0", "0", "2"),
        ("1", "1", "2"),
    ]


def test_a_c10d_rendezvous_needs_no_master_address_and_ignores_the_node_rank(elastic):
    assert sorted((worker["RANK"], worker["WORLD_SIZE"]) for worker in elastic) == [("0", "2"), ("1", "2")]
    assert {worker["MASTER_ADDR"] for worker in elastic}.isdisjoint({"wrong.invalid"})
