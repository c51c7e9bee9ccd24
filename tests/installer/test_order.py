"""Installing: the order in which a cluster is changed, what stays, and what is said when a step fails."""

from __future__ import annotations

import sys

import pytest

from muster.webhook import installer, manifests
from muster.webhook.installer import documents
from tests.installer import kubectls
from tests.manifests import bases


def test_the_api_server_calls_muster_only_when_it_serves():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    assert kubectl.done[0] == "Namespace"
    assert kubectl.done.index("Secret") < kubectl.done.index("Deployment")
    assert kubectl.done[-3:] == ["rollout", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_when_muster_does_not_serve_nothing_calls_it_and_its_log_is_shown():
    kubectl = kubectls.FakeKubectl(fails="rollout")
    with pytest.raises(installer.InstallError, match="did not become ready") as raised:
        kubectls.install(kubectl)
    assert not any("Webhook" in kind for kind in kubectl.done)
    assert "its last words" in str(raised.value)


def test_a_cluster_without_trainer_is_refused_before_anything_is_changed():
    kubectl = kubectls.FakeKubectl()
    del kubectl.objects["customresourcedefinition", "trainjobs.trainer.kubeflow.org"]
    with pytest.raises(installer.InstallError, match="install Kubeflow Trainer and JobSet first"):
        kubectls.install(kubectl)
    assert kubectl.done == []


def test_what_people_set_stays_unless_it_is_given():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl, image="muster:1", config="mode: warn\n", replicas=3)
    kubectls.install(kubectl)
    deployment = kubectl.objects["deployment", "muster"]["spec"]
    assert deployment["replicas"] == 3
    assert kubectl.objects["configmap", "muster"]["data"] == {"muster.yaml": "mode: warn\n"}
    assert deployment["template"]["spec"]["containers"][0]["image"] == bases.container()["image"]


def test_another_configuration_starts_other_pods():
    templates = []
    for config in ("mode: warn\n", "mode: warn\n", "server: {port: 9443}\n"):
        kubectl = kubectls.FakeKubectl()
        kubectls.install(kubectl, config=config)
        templates.append(kubectl.objects["deployment", "muster"]["spec"]["template"])
    assert templates[0] == templates[1] != templates[2]


def test_a_configuration_that_muster_would_refuse_is_not_installed():
    kubectl = kubectls.FakeKubectl()
    with pytest.raises(installer.InstallError, match="mode: 'nope'"):
        kubectls.install(kubectl, config="mode: nope\n")
    assert kubectl.done == []


def test_removal_first_lets_go_of_the_api_server_and_may_be_repeated():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    kubectl.done.clear()
    installer.uninstall(kubectl, lambda _: None)
    assert kubectl.done[:2] == [kind.lower() for kind in bases.WEBHOOKS]
    theirs = {"clusterrole", "clusterrolebinding", "role", "rolebinding"}  # also where the controllers are off
    theirs |= {"validatingadmissionpolicy", "validatingadmissionpolicybinding"}
    assert set(kubectl.done) == {document["kind"].lower() for document in bases.documents()} | theirs
    assert kubectl.done[-1] == "namespace"
    said = []
    installer.uninstall(kubectl, said.append)
    assert all(line.startswith("not found: ") for line in said)


def bound(kubectl, name="muster-controllers"):
    return {kind for kind, given in kubectl.objects if given == name}


def test_what_keeps_reports_of_trainings_gets_and_loses_its_rights_in_the_same_way():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl, config="trainings: {enabled: true}\n")
    assert bound(kubectl, "muster-trainings") == {"clusterrole", "clusterrolebinding", "role", "rolebinding"}
    assert bound(kubectl) == set()
    said = kubectls.install(kubectl, config="trainings: {enabled: false}\n")
    assert bound(kubectl, "muster-trainings") == set()
    assert "trainings are off: deleted ClusterRole muster-trainings" in said


def test_the_controllers_get_their_rights_with_the_configuration_that_switches_them_on_and_lose_them_with_it():
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    assert bound(kubectl) == set()
    kubectls.install(kubectl, config="controllers: {enabled: true}\n")
    assert bound(kubectl) == {"clusterrole", "clusterrolebinding", "role", "rolebinding"}
    role = kubectl.objects["clusterrole", "muster-controllers"]
    assert role["metadata"]["labels"] == kubectl.objects["serviceaccount", "muster"]["metadata"].get("labels", {})
    kubectls.install(kubectl)
    assert len(bound(kubectl)) == 4
    said = kubectls.install(kubectl, config="controllers: {enabled: false}\n")
    assert bound(kubectl) == set()
    assert "controllers are off: deleted ClusterRole muster-controllers" in said


def test_an_upgrade_is_an_installation_where_there_is_one_and_refused_elsewhere():
    kubectl = kubectls.FakeKubectl()
    with pytest.raises(installer.InstallError, match=r"no Deployment muster .*; run `muster install`$"):
        installer.upgrade(kubectl, installer.Installation(), lambda _: None)
    assert kubectl.done == []
    kubectls.install(kubectl, replicas=3)
    first, kubectl.done = kubectl.done, []
    installer.upgrade(kubectl, installer.Installation(image="muster:2"), lambda _: None)
    assert kubectl.done == [kind for kind in first if kind != "Secret"]
    deployment = kubectl.objects["deployment", "muster"]["spec"]
    assert deployment["template"]["spec"]["containers"][0]["image"] == "muster:2"
    assert deployment["replicas"] == 3


def test_what_earlier_versions_installed_is_taken_for_our_own():
    """The names by which `python -m e2e.installs` marked fields and the Secret."""
    kubectl = kubectls.FakeKubectl()
    kubectls.install(kubectl)
    assert kubectl.managers == {"muster-installs"}
    labels = kubectl.objects["secret", "muster-tls"]["metadata"]["labels"]
    assert labels["app.kubernetes.io/managed-by"] == "muster-installs"


def test_without_manifests_nothing_is_done(monkeypatch, tmp_path):
    monkeypatch.setattr(manifests, "_CHECKOUT", tmp_path)
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    kubectl = kubectls.FakeKubectl()
    with pytest.raises(installer.InstallError, match="install the package muster again"):
        kubectls.install(kubectl)
    assert kubectl.done == []


def test_a_kubectl_that_is_missing_or_fails_is_named(tmp_path):
    with pytest.raises(installer.InstallError, match="kubectl was not found; name one with --kubectl"):
        installer.Kubectl(tmp_path / "none").run("version")
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'E1121 03:52:02 noise' >&2; echo refused >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(installer.InstallError, match=r"^kubectl get nodes: refused$"):
        installer.Kubectl(program).run("get", "nodes")


def test_a_rendering_without_a_deployment_is_said_to_be_wrong(monkeypatch):
    monkeypatch.setattr(kubectls.FakeKubectl, "_kustomize", lambda *_: "kind: ConfigMap\ndata: {muster.yaml: ''}\n")
    with pytest.raises(installer.InstallError, match="renders 0 documents of kind Deployment"):
        documents.render(kubectls.FakeKubectl())
