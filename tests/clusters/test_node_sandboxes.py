"""Sandboxes for real: they need what the node tier needs, which the reason of a skipped test names."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from e2e.cluster import node, processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import cgroups, leftovers, sandboxes
from e2e.cluster.places import Places
from e2e.suites.support.waits import until

_LACKS = node.missing()
pytestmark = [
    pytest.mark.skipif(bool(_LACKS), reason=f"no sandboxes on this machine, it lacks {', '.join(_LACKS)}"),
    # A sandbox is meant to outlive the program that made it.
    pytest.mark.filterwarnings("ignore:.*subprocess .* is still running:ResourceWarning"),
    pytest.mark.filterwarnings("ignore:.*Popen.__del__:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture
def where(tmp_path, monkeypatch):
    monkeypatch.setenv("MUSTER_CACHE", str(tmp_path / "cache"))
    places = Places(tmp_path / "state")
    places.make()
    yield places
    sandboxes.destroy(places)


def traces(places):
    """All that a look at the machine finds of this cluster."""
    found = leftovers.added(leftovers.Traces(*[frozenset()] * 8), leftovers.look())
    return [line for line in found if any(word in line for word in leftovers.words_about(places.state))]


def test_a_sandbox_leaves_nothing(where):
    sandboxes.create(where)
    kinds = {line.partition(":")[0] for line in traces(where)}

    sandboxes.destroy(where)

    assert kinds >= {"processes", "links", "routes", "groups"}
    assert traces(where) == []
    assert sandboxes.find(where) is None


def test_a_killed_first_process_takes_everything_inside_with_it(where):
    sandbox = sandboxes.create(where)
    inside = processes.start(where, "sleeper", [*sandbox.prefix(), "sleep", "600"])

    os.kill(sandbox.init, signal.SIGKILL)
    inside.wait(10)
    sandboxes.destroy(where)

    assert processes.running(where) == {}
    assert traces(where) == []


def test_one_that_crashed_can_be_made_again(where):
    sandboxes.create(where)
    processes.end(where, "sandbox", kill=True)

    assert sandboxes.create(where).run("hostname").strip() == sandboxes.HOSTNAME


def test_one_that_runs_is_found_and_not_made_twice(where):
    made = sandboxes.create(where)

    assert sandboxes.find(where) == made
    with pytest.raises(ClusterError, match="take it down first"):
        sandboxes.create(where)


def test_what_runs_inside_sees_its_own_machine(where):
    sandbox = sandboxes.create(where)
    hidden = Path("/run") / f"muster-{os.getpid()}"

    sandbox.run("touch", hidden, f"/var/lib/{hidden.name}", f"/var/log/{hidden.name}")

    assert not any(Path(folder, hidden.name).exists() for folder in ("/run", "/var/lib", "/var/log"))
    assert sandbox.run("cat", "/proc/sys/kernel/panic") == "10\n"
    assert " /proc/sys/kernel/panic " in sandbox.run("cat", "/proc/self/mountinfo")
    assert " /proc/sys/kernel/panic " not in Path("/proc/self/mountinfo").read_text()
    assert sandbox.address in sandbox.run("ip", "-4", "address", "show", "eth0")
    assert len(sandbox.run("sh", "-c", "ls -d /proc/[0-9]*").split()) < 10


def test_orphans_inside_are_reaped(where):
    sandbox = sandboxes.create(where)

    sandbox.run("sh", "-c", "sh -c 'sleep 0.05 & exit 0'")

    # Also one that has ended has its name until it is reaped.
    until("the orphan to be reaped", lambda: "sleep" not in sandbox.run("sh", "-c", "cat /proc/[0-9]*/comm").split())


def test_two_sandboxes_have_networks_of_their_own(where, tmp_path):
    other = Places(tmp_path / "other")
    other.make()
    try:
        one, two = sandboxes.create(where), sandboxes.create(other)
        assert not one.network.block.overlaps(two.network.block)
    finally:
        sandboxes.destroy(other)


def test_groups_go_from_the_deepest_up(where):
    name = sandboxes.identity(where)
    cgroups.create(name)
    for hierarchy in cgroups.hierarchies():
        (hierarchy / name / "kubepods" / "pod").mkdir(parents=True)

    cgroups.remove(name)

    assert list(cgroups.remaining(name)) == []


def test_destroying_what_never_was_is_no_error(where):
    sandboxes.destroy(where)
