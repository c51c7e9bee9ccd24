"""Who has memory on a device: answers of a stand-in for nvidia-smi, and control groups of version 2 as files."""

import os
import subprocess
import sys

import pytest

from muster.sessions.devices.memory import Budget, DeviceError, Nvidia, device

_GIB = 1 << 30


@pytest.fixture
def smi(tmp_path):
    """Make a program that answers as nvidia-smi does, and return a GPU that is measured by it."""

    def made(answer, code=0):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\nprintf '%s\\n' \"$*\" > {tmp_path}/asked\nprintf '{answer}'\nexit {code}\n")
        program.chmod(0o755)
        return Nvidia("GPU-7", floor=_GIB, command=str(program))

    return made


def test_who_has_more_than_a_context_has_memory(smi, tmp_path):
    gpu = smi("101, 1024\\n102, 1025\\n103, 30000\\n")
    assert gpu.users({101: "a", 102: "b"}) == {"b", "pid 103"}
    asked = "--id=GPU-7 --query-compute-apps=pid,used_memory --format=csv,noheader,nounits\n"
    assert (tmp_path / "asked").read_text() == asked


def test_a_gpu_of_nobody_has_no_users(smi):
    assert smi("").users({1: "a"}) == frozenset()


def test_whose_share_the_driver_does_not_tell_has_memory(smi):
    assert smi("101, [N/A]\\n").users({101: "a"}) == {"a"}


def test_memory_of_a_child_is_that_of_its_engine(smi):
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert smi(f"{child.pid}, 30000\\n").users({os.getpid(): "a"}) == {"a"}
        child.communicate(b"\n")


def test_a_gpu_that_cannot_be_measured_is_told(smi):
    with pytest.raises(DeviceError, match="GPU-7: nvidia-smi cannot tell who has memory"):
        smi("", code=9).users({})


@pytest.fixture
def hierarchy(tmp_path):
    """Return a hierarchy of version 2, as far as files go."""
    (tmp_path / "cgroup.controllers").write_text("memory pids\n")
    return tmp_path


def test_a_budget_of_version_2_has_a_limit_and_no_swap(hierarchy):
    Budget("gpu", 100 << 20, root=hierarchy).open()
    assert (hierarchy / "gpu" / "memory.max").read_text() == str(100 << 20)
    assert (hierarchy / "gpu" / "memory.swap.max").read_text() == "0"
    assert (hierarchy / "gpu" / "cgroup.subtree_control").read_text() == "+memory"


@pytest.mark.parametrize(
    ("anonymous", "shared", "users"), [(11, 0, {"a"}), (6, 5, {"a"}), (10, 0, set()), (0, 0, set())]
)
def test_a_budget_of_version_2_counts_what_is_no_file(hierarchy, anonymous, shared, users):
    budget = Budget("gpu", 100, floor=10, root=hierarchy)
    budget.open()
    (hierarchy / "gpu" / "a").mkdir()
    (hierarchy / "gpu" / "a" / "memory.stat").write_text(f"anon {anonymous}\nfile 999\nshmem {shared}\n")
    assert budget.users({}) == users


@pytest.mark.parametrize(
    "text", ["", "gpu", "nvidia:", "budget:x", "budget::7", "budget:x:0", "budget:a/b:7", "budget:..:7"]
)
def test_what_is_no_device_is_refused_with_what_to_pass(text):
    with pytest.raises(DeviceError, match="is not a device: pass nvidia:UUID or budget:NAME:MEBIBYTES"):
        device(text)
