"""The cluster for people with Docker, as far as kind goes without it.

kind is run as up.sh runs it, with a docker that only writes down what it is asked. A file that kind cannot read is
refused by the same path that lets ours through; ours goes as far as the containers of its nodes.
"""

from __future__ import annotations

import sys

import pytest

from e2e.cluster.places import REPOSITORY
from tests.support import recorders

KIND = REPOSITORY / "e2e" / "kind"
CONFIG = (KIND / "config.yaml").read_text()
ROLE = "io.x-k8s.kind.role="
# An engine without containers, whose new ones come up at once.
DOCKER = """case "$1" in
-v) echo "Docker version 28.0.0, build 0" ;;
info) echo '{"CgroupVersion": "2", "CgroupDriver": "systemd"}' ;;
logs) echo "Reached target Multi-User System." ;;
esac"""
REFUSALS = {
    "a field that is none": (("nodes:", "nods:"), "field nods not found in type v1alpha4.Cluster"),
    "a field of a node that is none": (
        ("- role: worker", "- rol: worker"),
        "field rol not found in type v1alpha4.Node",
    ),
    "a role that is none": (("role: worker", "role: wroker"), '"wroker" is not a valid node role'),
    "another version": (("v1alpha4", "v1beta1"), "unknown apiVersion: kind.x-k8s.io/v1beta1"),
    "another kind": (("kind: Cluster", "kind: Clusters"), "unknown kind Clusters for apiVersion"),
    "no control plane": (("role: control-plane", "role: worker"), "must have at least one control-plane node"),
    "a name that is none": (("name: muster", "name: Muster_1"), "'Muster_1' is not a valid cluster name"),
}


@pytest.fixture
def programs(kind, tmp_path):
    """The real kind, a docker and a kubectl that only write down."""
    (tmp_path / "edge").mkdir()
    made = recorders.Programs(tmp_path / "edge")
    made.link("kind", kind)
    made.add("docker", DOCKER)
    made.add("kubectl")
    return made


def started(programs):
    """The `docker run` of each node, by the node's role."""
    runs = [call for call in programs.calls if call[:2] == ["docker", "run"]]
    return {word.removeprefix(ROLE): call for call in runs for word in call if word.startswith(ROLE)}


def up(programs, tmp_path, **environment):
    chosen = {"STATE": str(tmp_path / "state"), "PYTHON": sys.executable, **environment}
    return programs.run("bash", KIND / "up.sh", environment=chosen)


def test_kind_takes_our_configuration_and_starts_a_node_for_pods_beside_the_control_plane(programs, tmp_path):
    outcome = up(programs, tmp_path)

    nodes = started(programs)
    assert set(nodes) == {"control-plane", "worker"}, outcome.stderr
    for role, call in nodes.items():
        assert call[2:4] == ["--name", f"muster-{role}"]
        assert "io.x-k8s.kind.cluster=muster" in call
    # Its containers answer nothing, so this is as far as it goes, and what it made it takes away.
    assert outcome.returncode != 0
    assert "the cluster is up" not in outcome.stdout
    assert not [call for call in programs.calls if call[:2] == ["docker", "build"]]


def test_the_image_of_the_nodes_can_be_chosen(programs, tmp_path):
    outcome = up(programs, tmp_path, NODE_IMAGE="kindest/node:v1.36.1")
    assert {call[-1] for call in started(programs).values()} == {"kindest/node:v1.36.1"}, outcome.stderr


@pytest.mark.parametrize(("change", "said"), list(REFUSALS.values()), ids=list(REFUSALS))
def test_what_kind_cannot_read_is_refused_before_a_node_is_started(programs, tmp_path, change, said):
    assert change[0] in CONFIG
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.replace(*change))

    outcome = programs.run("kind", "create", "cluster", "--config", path, "--kubeconfig", tmp_path / "kubeconfig")

    assert outcome.returncode == 1
    assert said in outcome.stderr
    assert not started(programs)


def test_down_is_taken_by_kind_and_ends_nothing_that_is_not_there(programs, tmp_path):
    outcome = programs.run("bash", KIND / "down.sh", "mine", environment={"STATE": str(tmp_path / "state")})

    assert outcome.returncode == 0, outcome.stderr
    assert 'Deleting cluster "mine"' in outcome.stderr
    assert not [call for call in programs.calls if call[:2] == ["docker", "rm"]]
