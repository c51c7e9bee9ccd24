"""Installing: the order in which a cluster is changed, what stays, and what is said when a step fails."""

from __future__ import annotations

import pytest

from e2e import installs
from e2e.installs import __main__, kubectls, renders, steps
from tests.manifests import bases, clusters


def test_the_api_server_calls_muster_only_when_it_serves():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl)
    assert kubectl.done[0] == "Namespace"
    assert kubectl.done.index("Secret") < kubectl.done.index("Deployment")
    assert kubectl.done[-3:] == ["rollout", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"]


def test_when_muster_does_not_serve_nothing_calls_it_and_its_log_is_shown():
    kubectl = clusters.FakeKubectl(fails="rollout")
    with pytest.raises(installs.InstallError, match="does not serve") as raised:
        clusters.install(kubectl)
    assert not any("Webhook" in kind for kind in kubectl.done)
    assert "its last words" in str(raised.value)


def test_a_cluster_without_trainer_is_refused_before_anything_is_changed():
    kubectl = clusters.FakeKubectl()
    del kubectl.objects["customresourcedefinition", "trainjobs.trainer.kubeflow.org"]
    with pytest.raises(installs.InstallError, match="install Kubeflow Trainer and JobSet first"):
        clusters.install(kubectl)
    assert kubectl.done == []


def test_what_people_set_stays_unless_it_is_given():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl, image="muster:1", config="mode: warn\n", replicas=3)
    clusters.install(kubectl)
    deployment = kubectl.objects["deployment", "muster"]["spec"]
    assert deployment["replicas"] == 3
    assert kubectl.objects["configmap", "muster"]["data"] == {"muster.yaml": "mode: warn\n"}
    assert deployment["template"]["spec"]["containers"][0]["image"] == bases.container()["image"]


def test_another_configuration_starts_other_pods():
    templates = []
    for config in ("mode: warn\n", "mode: warn\n", "server: {port: 9443}\n"):
        kubectl = clusters.FakeKubectl()
        clusters.install(kubectl, config=config)
        templates.append(kubectl.objects["deployment", "muster"]["spec"]["template"])
    assert templates[0] == templates[1] != templates[2]


def test_a_configuration_that_muster_would_refuse_is_not_installed():
    kubectl = clusters.FakeKubectl()
    with pytest.raises(installs.InstallError, match="mode: 'nope'"):
        clusters.install(kubectl, config="mode: nope\n")
    assert kubectl.done == []


def test_removal_first_lets_go_of_the_api_server_and_may_be_repeated():
    kubectl = clusters.FakeKubectl()
    clusters.install(kubectl)
    kubectl.done.clear()
    steps.uninstall(kubectl, lambda _: None)
    assert kubectl.done[:2] == [kind.lower() for kind in bases.WEBHOOKS]
    assert set(kubectl.done) == {document["kind"].lower() for document in bases.documents()}
    assert kubectl.done[-1] == "namespace"
    said = []
    steps.uninstall(kubectl, said.append)
    assert all(line.startswith("was not there") for line in said)


def test_a_kubectl_that_is_missing_or_fails_is_named(tmp_path):
    with pytest.raises(installs.InstallError, match="there is no such kubectl; name one with --kubectl"):
        kubectls.Kubectl(tmp_path / "none").run("version")
    program = tmp_path / "kubectl"
    program.write_text("#!/bin/sh\necho 'E1121 03:52:02 noise' >&2; echo refused >&2; exit 1\n")
    program.chmod(0o755)
    with pytest.raises(installs.InstallError, match=r"^kubectl get nodes: refused$"):
        kubectls.Kubectl(program).run("get", "nodes")


def test_a_failed_step_ends_with_2_and_its_reason(tmp_path, capsys):
    assert __main__.main(["--kubectl", str(tmp_path / "none")]) == 2
    assert "no such kubectl" in capsys.readouterr().err
    assert __main__.main(["--set-config", str(tmp_path / "none")]) == 2
    with pytest.raises(SystemExit):
        __main__.main(["--replicas", "0"])


def test_a_rendering_without_a_deployment_is_said_to_be_wrong(monkeypatch):
    monkeypatch.setattr(clusters.FakeKubectl, "_kustomize", lambda *_: "kind: ConfigMap\ndata: {muster.yaml: ''}\n")
    with pytest.raises(installs.InstallError, match="renders 0 documents of kind Deployment"):
        renders.documents(clusters.FakeKubectl())
