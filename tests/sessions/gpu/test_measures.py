"""The guard of a training on a GPU: two ranks on one device, a device that nobody touches, and NCCL by itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sessions.gpu.gpus import GPU, WHY

pytestmark = pytest.mark.skipif(not GPU, reason=WHY)
GUARD = Path(__file__).parents[3] / "images" / "guard"
PROGRAM = """
import sys, torch, torch.distributed as dist
dist.init_process_group(sys.argv[1])
torch.cuda.set_device(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 8).cuda())
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    model(torch.randn(4, 64, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.barrier()
"""


@pytest.fixture
def train(tmp_path):
    """Run the training by torchrun; return its exit code and what it wrote."""
    (tmp_path / "sitecustomize.py").write_text("import muster_guard.start\n")
    (tmp_path / "program.py").write_text(PROGRAM)

    def run(backend, ranks, **more):
        command = [sys.executable, "-m", "torch.distributed.run", f"--nproc_per_node={ranks}", "--standalone"]
        done = subprocess.run(
            [*command, str(tmp_path / "program.py"), backend],
            env={**os.environ, "PYTHONPATH": f"{tmp_path}:{GUARD}", "CUDA_VISIBLE_DEVICES": GPU, **more},
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr

    return run


def reports(output):
    return [json.loads(line) for line in output.splitlines() if line.startswith('{"schema"')]


def test_two_ranks_on_one_device_are_told(train):
    code, output = train("gloo", 2, MUSTER_GUARD="report")

    assert code == 0, output
    assert "muster: ranks 0 and 1 train on one device." in output
    assert {each["verdict"] for each in reports(output)} == {"device-shared"}
    assert {each["gradients"] for each in reports(output)} == {"shared"}
    assert reports(output)[0]["devices"] == {"used": 1, "visible": 1, "shared": 1, "idle": 0}


def test_enforce_ends_them(train):
    assert train("gloo", 2, MUSTER_GUARD="enforce")[0] == 78


def test_a_device_that_was_asked_for_and_is_not_touched_is_told_and_nobody_is_ended(train):
    code, output = train("nccl", 1, MUSTER_GUARD="enforce", MUSTER_EXPECTED_DEVICES="2")

    assert code == 0, output
    assert "muster: 1 of 2 devices of this pod have no memory of any rank" in output


def test_a_training_by_nccl_on_its_device_is_not_disturbed(train):
    code, output = train("nccl", 1, MUSTER_GUARD="enforce", MUSTER_EXPECTED_DEVICES="1")

    assert (code, "muster:" in output) == (0, False), output


def test_nccl_itself_refuses_two_ranks_on_one_device_before_the_guard_sees_a_step(train):
    code, output = train("nccl", 2, MUSTER_GUARD="report")

    assert code == 1
    assert "Duplicate GPU detected" in output
