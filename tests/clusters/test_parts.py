from __future__ import annotations

import pytest

from e2e.cluster import bringups, builds, commands, kwok, managers, packages, places, sites, toolchains
from e2e.cluster.errors import ClusterError

ALL = [module.name for module in builds.MODULES]


@pytest.fixture
def pins(tmp_path, monkeypatch):
    for module in builds.MODULES:
        (tmp_path / module.name).mkdir()
        for name in ("go.mod", "go.sum"):
            (tmp_path / module.name / name).write_text("pinned")
    monkeypatch.setattr(builds, "_PINS", tmp_path)
    return tmp_path


@pytest.fixture
def built(pins, monkeypatch, tmp_path):
    """The modules that were built, by name, in their order; nothing is compiled."""
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    names = []

    def build(module, folder):
        names.append(module.name)
        folder.mkdir(parents=True)
        (folder / f"of-{module.name}").write_text("program")

    monkeypatch.setattr(builds, "_build", build)
    return names


@pytest.mark.parametrize("name", ["go.mod", "go.sum"])
def test_another_pin_is_another_folder(pins, built, name):
    before = builds.binaries(ALL)

    (pins / "containerd" / name).write_text("pinned otherwise")

    assert builds.binaries(ALL) != before
    assert before.exists()


def test_what_is_built_is_not_built_again(built):
    assert builds.binaries(ALL) == builds.binaries(reversed(ALL))
    assert built == ALL


def test_another_pin_builds_its_own_module_and_leaves_the_others(pins, built):
    builds.binaries(ALL)
    built.clear()

    (pins / "dradriver" / "go.sum").write_text("pinned otherwise")

    assert {each.name for each in builds.binaries(ALL).iterdir()} == {f"of-{name}" for name in ALL}
    assert built == ["dradriver"]


def test_the_binaries_of_all_modules_lie_in_one_folder(built):
    assert {each.read_text() for each in builds.binaries(ALL).iterdir()} == {"program"}


def test_what_nobody_asked_for_is_not_built(built):
    folder = builds.binaries(["coredns", "kubernetes"])

    assert built == ["kubernetes", "coredns"]
    assert {each.name for each in folder.iterdir()} == {"of-kubernetes", "of-coredns"}


def test_a_module_that_is_none_of_ours_is_named(built):
    with pytest.raises(ClusterError, match="no module of e2e/binaries: kubernets"):
        builds.binaries(["kubernets"])
    assert built == []


@pytest.mark.parametrize("name", ["", "A", "a/b", "../up", "a" * 32, "1a"])
def test_a_clusters_name_must_fit_in_a_host_name(name):
    with pytest.raises(ClusterError, match="lower-case letters"):
        places.named(name)


def test_a_folder_that_is_no_clusters_is_never_removed(tmp_path):
    (tmp_path / "thesis.txt").write_text("years of work")

    with pytest.raises(ClusterError, match="is not the folder of a cluster"):
        bringups.down(places.Places(tmp_path))

    assert (tmp_path / "thesis.txt").exists()


def test_an_empty_or_missing_folder_may_become_a_clusters_and_goes_with_it(tmp_path):
    for where in (places.Places(tmp_path / "missing"), places.Places(tmp_path)):
        where.remove()
        where.make()
        where.remove()

        assert not where.state.exists()


def test_a_start_that_did_not_come_to_its_end_is_not_taken_for_a_cluster(tmp_path, monkeypatch):
    where = places.Places(tmp_path)
    where.make()
    monkeypatch.setattr(bringups.processes, "running", lambda _: {1: "etcd"})

    with pytest.raises(ClusterError, match="did not come to its end; bring it down"):
        bringups.up(where, "control-plane")


def test_a_site_is_read_back_as_it_was_written(tmp_path):
    where = places.Places(tmp_path)
    site = sites.Site("node", "10.1.0.2", sites.Ports(*range(1, 13)), ("nsenter", "-t", "1"), dns="10.1.0.2")
    site.save(where)

    assert sites.load(where) == site


def test_an_old_go_is_replaced_by_one_of_our_own(monkeypatch, tmp_path):
    old = tmp_path / "go"
    old.write_text("#!/bin/sh\necho go version go1.19.8 linux/amd64\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(toolchains, "_installed", lambda: "ours")

    assert toolchains.find() == "ours"


def test_without_go_and_without_pip_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path))
    monkeypatch.setattr(toolchains.sys, "executable", "/no/such/python")

    with pytest.raises(ClusterError, match=r"install Go 1\.26 and put it on PATH"):
        toolchains.find()


def test_missing_packages_are_named_when_not_root(monkeypatch, tmp_path):
    monkeypatch.setattr(packages, "_FOLDERS", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(packages.os, "geteuid", lambda: 1000)

    with pytest.raises(ClusterError, match="apt-get install runc nftables conntrack buildah debootstrap"):
        packages.ensure()


def test_a_failed_command_tells_the_end_of_what_it_said():
    with pytest.raises(ClusterError, match=r"`sh -c echo lost >&2; exit 3` ended with 3:\nlost"):
        commands.run(["sh", "-c", "echo lost >&2; exit 3"])


def test_a_missing_command_is_named():
    with pytest.raises(ClusterError, match="No such file or directory: no-such-command"):
        commands.run(["no-such-command"])


def test_a_command_that_hangs_is_given_up():
    with pytest.raises(ClusterError, match="took longer than 0 s"):
        commands.run(["sleep", "5"], timeout=0.05)


def test_a_fake_node_takes_only_pods_that_tolerate_it():
    node = kwok.node("kwok-7")

    taint = node["spec"]["taints"][0]
    assert (taint["key"], taint["effect"]) == ("kwok.x-k8s.io/node", "NoSchedule")
    assert node["metadata"]["annotations"] == {taint["key"]: taint["value"]}


def test_a_webhook_by_service_becomes_one_by_url_with_the_same_path():
    service = {"service": {"name": "muster", "namespace": "muster-system", "path": "/mutate/jobsets"}}
    document = {"kind": "MutatingWebhookConfiguration", "webhooks": [{"name": "a", "clientConfig": service}]}

    rewritten = managers._by_url(document, "https://127.0.0.1:20000", "Q0E=")

    assert rewritten["webhooks"] == [
        {"name": "a", "clientConfig": {"url": "https://127.0.0.1:20000/mutate/jobsets", "caBundle": "Q0E="}}
    ]
    assert document["webhooks"][0]["clientConfig"] == service
