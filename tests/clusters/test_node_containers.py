"""What runc is told; that it does so is shown in tests/packaging/test_images_of_sessions.py."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.node import containers, storages, trainings

OWN = {"User": "65532:65532", "Env": ["PATH=/bin"], "WorkingDir": "/tmp", "Entrypoint": ["serve"], "Cmd": ["--help"]}


def image(*names):
    layers = tuple(storages.Layer(f"sha256:{name}", 1, Path("/layers") / name) for name in names)
    return trainings.Built("localhost/a:e2e", json.dumps({"config": OWN}), layers)


def config(**wanted):
    return containers._config(containers.Wanted(image("base"), **wanted), [], "one")


def test_a_container_may_do_nothing_that_a_pod_of_ours_may_not():
    made = config()

    assert made["root"] == {"path": "rootfs", "readonly": True}
    assert made["process"]["user"] == {"uid": 65532, "gid": 65532}
    assert made["process"]["capabilities"] == {}
    assert made["process"]["noNewPrivileges"] is True
    assert {"type": "network"} in made["linux"]["namespaces"], "which has a loopback device and nothing else"
    assert [each["destination"] for each in made["mounts"] if "ro" not in each.get("options", ())] == [
        *("/proc", "/dev", "/dev/shm", "/tmp"),
    ]


@pytest.mark.parametrize(
    ("wanted", "args"),
    [
        ({}, ["serve", "--help"]),
        ({"arguments": ["--port", "1"]}, ["serve", "--port", "1"]),
        ({"arguments": ["ls"], "entry": False}, ["ls"]),
    ],
)
def test_arguments_follow_the_entry_point_unless_they_take_its_place(wanted, args):
    assert config(**wanted)["process"]["args"] == args


def test_a_volume_is_written_to_only_where_that_was_said():
    volumes = [containers.Volume(Path("/a"), "/state", writable=True), containers.Volume(Path("/b"), "/models")]

    bound = [each["options"] for each in config(volumes=volumes)["mounts"] if each["type"] == "bind"]

    assert bound == [["rbind", "rw"], ["rbind", "ro"]]


def test_layers_lie_over_one_another_each_of_them_once():
    text = containers._mounting(image("base", "empty", "torch", "empty", "top"), Path("/run/root"))

    assert "cd /layers\n" in text
    assert "lowerdir=top:empty:torch:base overlay /run/root" in text


def test_control_groups_of_a_process_that_was_killed_are_removed_and_those_of_one_that_lives_are_not(
    tmp_path, monkeypatch
):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for name in (f"muster-run-{gone.pid}-1/container", f"muster-run-{os.getpid()}-1", "muster-0123abcd"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.setattr(containers.cgroups, "hierarchies", lambda: [tmp_path])

    containers._sweep()

    assert {each.name for each in tmp_path.iterdir()} == {f"muster-run-{os.getpid()}-1", "muster-0123abcd"}
