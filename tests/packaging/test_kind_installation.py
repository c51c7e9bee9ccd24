"""What `python -m e2e.kind install` puts on a cluster of kind, with a kubectl that renders and applies nothing."""

from __future__ import annotations

import os
import shlex
import sys

import pytest
import yaml

from e2e.cluster import builds, kwok, upstream
from e2e.cluster.node import images
from e2e.cluster.places import REPOSITORY
from tests.packaging import renders
from tests.support import recorders

# It renders like the real one, keeps what is to be applied, and says that the cluster serves every CRD.
KUBECTL = """for word do
case "$word" in
kustomize) exec {kubectl} "$@" ;;
apply) exec cat > {folder}/applied-"$number" ;;
customresourcedefinition) echo "{{}}" ;;
crd) echo '{{"items": []}}' ;;
esac
done"""
APPS = ("jobset-controller-manager", "kubeflow-trainer-controller-manager", "muster", "kwok-controller")


class Installed:
    """One installation.

    Attributes:
        folder: the state folder.
        outcome: of the command.
        calls: of kubectl.
        applied: (number of the call, document) in the order in which they were applied.
    """

    def __init__(self, folder, programs):
        self.folder = folder
        self.outcome = programs.run(
            *(sys.executable, "-m", "e2e.kind", "install", "--state", folder),
            environment={**os.environ, "PATH": f"{programs.path}:{os.environ['PATH']}"},
            folder=REPOSITORY,
        )
        self.calls = programs.calls
        self.applied = [
            (number, document)
            for number in range(len(self.calls))
            if (folder / f"applied-{number}").exists()
            for document in _documents(folder / f"applied-{number}")
        ]

    def of(self, kind):
        """The documents of a kind, by name."""
        return {each["metadata"]["name"]: each for _, each in self.applied if each["kind"] == kind}

    def when(self, kind, name):
        """The number of the call that applied an object."""
        (number,) = (at for at, each in self.applied if (each["kind"], each["metadata"]["name"]) == (kind, name))
        return number

    def asked(self, word):
        """The numbers of the calls with this word."""
        return [number for number, call in enumerate(self.calls) if word in call]


def _documents(path):
    out = []
    for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
        out += document["items"] if document["kind"] == "List" else [document]
    return out


@pytest.fixture(scope="module")
def installed(kubectl, tmp_path_factory):
    folder = tmp_path_factory.mktemp("installed")
    (folder / "edge").mkdir()
    (folder / "kubeconfig").write_text("of a cluster that is not asked")
    programs = recorders.Programs(folder / "edge")
    programs.add("kubectl", KUBECTL.format(kubectl=shlex.quote(str(kubectl)), folder=shlex.quote(str(folder))))
    return Installed(folder, programs)


def test_it_comes_to_its_end_and_the_suites_are_told_how_to_reach_the_cluster(installed):
    assert installed.outcome.returncode == 0, installed.outcome.stderr
    told = dict(line.split("=", 1) for line in (installed.folder / "env").read_text().splitlines())
    assert told["KUBECONFIG"] == str(installed.folder / "kubeconfig")
    assert told["MUSTER_E2E_KUBECTL"].endswith("/kubectl")


def test_every_call_that_reaches_a_cluster_names_this_one(installed):
    reaching = [call for call in installed.calls if "kustomize" not in call]
    assert {tuple(call[1:3]) for call in reaching} == {("--kubeconfig", str(installed.folder / "kubeconfig"))}


def test_images_are_those_that_are_released_and_the_one_that_up_builds(installed):
    deployments = installed.of("Deployment")
    assert set(deployments) == set(APPS)
    containers = [each for name in APPS for each in deployments[name]["spec"]["template"]["spec"]["containers"]]
    assert [each["image"] for each in containers] == [
        f"registry.k8s.io/jobset/jobset:{builds.version('kubernetes', upstream.JOBSET)}",
        f"ghcr.io/kubeflow/trainer/trainer-controller-manager:{builds.version('kubernetes', upstream.TRAINER)}",
        images.MUSTER,
        f"registry.k8s.io/kwok/kwok:{builds.version('kubernetes', 'sigs.k8s.io/kwok')}",
    ]


def test_kubernetes_knows_every_field_of_what_is_applied(installed, kubernetes):
    known = [each for _, each in installed.applied if kubernetes.knows(each)]
    assert {"Deployment", "Node", "FlowSchema", *renders.WEBHOOKS} <= {each["kind"] for each in known}
    assert [problem for each in known for problem in kubernetes.problems(each)] == []


def test_each_part_comes_when_what_it_needs_is_there(installed):
    webhooks = [installed.when(kind, "muster") for kind in renders.WEBHOOKS]
    (served,) = installed.asked("rollout")
    questions = installed.asked("--dry-run=server")
    trainer, muster = (installed.when("Deployment", name) for name in (APPS[1], APPS[2]))
    nodes, runtimes = installed.when("Node", "kwok-0"), installed.when("ClusterTrainingRuntime", "trl-distributed")
    order = [trainer, muster, served, *webhooks, *questions, nodes, runtimes]
    assert order == sorted(order)
    assert (len(questions), len({trainer, muster, served, *webhooks, *questions, nodes, runtimes})) == (2, 8)


def test_namespaces_come_before_what_lies_in_them(installed):
    there = {"default", "kube-system"}
    for _, each in installed.applied:
        assert each["metadata"].get("namespace", "default") in there, each["metadata"]
        if each["kind"] == "Namespace":
            there.add(each["metadata"]["name"])


def test_the_fake_nodes_are_those_that_kwok_manages_by_the_stages_of_the_suites(installed):
    (container,) = installed.of("Deployment")["kwok-controller"]["spec"]["template"]["spec"]["containers"]
    (chosen,) = (word for word in container["args"] if "annotation-selector" in word)
    key, value = chosen.split("=")[1:]
    assert {name: each["metadata"]["annotations"][key] for name, each in installed.of("Node").items()} == {
        "kwok-0": value,
        "kwok-1": value,
    }
    stages = yaml.safe_load_all(installed.of("ConfigMap")["kwok"]["data"]["kwok.yaml"])
    assert list(stages) == list(kwok.stages())


def test_every_runtime_of_ours_is_there_and_those_of_trainer_that_have_other_names(installed):
    runtimes = set(installed.of("ClusterTrainingRuntime"))
    assert {"torch-distributed", "trl-distributed", "jax-distributed", "deepspeed-distributed"} <= runtimes
