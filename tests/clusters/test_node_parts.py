from __future__ import annotations

import os

import pytest

from e2e.cluster import node
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import images, requirements, workloads
from e2e.cluster.node.leftovers import Traces, added


def deployment(image):
    return {"kind": "Deployment", "spec": {"template": {"spec": {"containers": [{"image": image}]}}}}


@pytest.fixture
def sources(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "REPOSITORY", tmp_path)
    monkeypatch.setattr(images, "_MUSTER_SOURCES", ("webhook",))
    monkeypatch.setattr(images, "_PROBE_PROGRAM", tmp_path / "probe.py")
    for module in (images, images.builders, images.layouts):
        monkeypatch.setattr(module, "__file__", str(tmp_path / "probe.py"))
    for name in ("probe.py", "webhook/server.py", "webhook/__pycache__/server.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("before")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "rebuilt"), [("probe.py", True), ("webhook/server.py", True), ("webhook/__pycache__/server.pyc", False)]
)
def test_only_what_goes_into_an_image_makes_another_archive(sources, name, rebuilt):
    before = images._key(sources / "base", {})

    (sources / name).write_text("after")

    assert (images._key(sources / "base", {}) != before) == rebuilt


def test_another_binary_or_name_makes_another_archive(sources):
    keys = [images._key(sources / "base", each) for each in ({}, {"a": sources}, {"b": sources}, {"a": sources / "x"})]

    assert len(set(keys)) == len(keys)


def test_the_archives_used_last_are_kept(tmp_path):
    for age in range(5):
        (tmp_path / f"images-{age}.tar").touch()
        os.utime(tmp_path / f"images-{age}.tar", (age, age))

    images._forget(tmp_path)

    assert sorted(each.name for each in tmp_path.iterdir()) == ["images-2.tar", "images-3.tar", "images-4.tar"]


def test_who_is_not_root_is_told_so(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert node.missing() == ["root"]


def test_a_capability_that_fails_is_named(monkeypatch):
    monkeypatch.setattr(requirements, "_TRIALS", {"flying": "false", "walking": "true"})

    assert list(requirements._capabilities()) == ["flying"]


def test_images_are_named_as_the_manifests_ask_for_them(tmp_path):
    manifests = workloads.Manifests([{"kind": "Service"}, deployment("far/jobset:1")], [deployment("far/trainer:2")])

    found = manifests.images(tmp_path)

    assert {name: path.name for name, path in found.items()} == {
        "far/jobset:1": "jobset-controller-manager",
        "far/trainer:2": "trainer-controller-manager",
    }


def test_manifests_without_a_deployment_are_refused(tmp_path):
    with pytest.raises(ClusterError, match="no Deployment"):
        workloads.Manifests([], []).images(tmp_path)


def test_only_what_is_new_counts_as_left():
    none = Traces(*[frozenset()] * 8)
    before = Traces(frozenset({"1 etcd"}), *[frozenset()] * 7)
    after = Traces(frozenset({"1 etcd", "2 etcd"}), frozenset({"tmpfs"}), *[frozenset()] * 6)

    assert added(before, after) == ["processes: 2 etcd", "mounts: tmpfs"]
    assert added(after, none) == []
