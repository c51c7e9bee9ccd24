"""`muster install`, `upgrade` and `uninstall`: what they ask of the installer, and what they say."""

from __future__ import annotations

import pytest

from muster.webhook import installer
from tests.installer import kubectls


@pytest.fixture
def cluster(monkeypatch):
    """A kubectl that keeps objects, in place of the one that is asked for; `asked` says which one that was."""
    kubectl = kubectls.FakeKubectl()
    kubectl.asked = []
    monkeypatch.setattr(installer, "Kubectl", lambda *which: kubectl.asked.append(which) or kubectl)
    return kubectl


def test_install_puts_what_the_options_say_into_the_cluster_that_they_name(muster, cluster, write):
    config = write("muster.yaml", "mode: warn\n")
    place = config.with_name("kubeconfig")
    result = muster(
        *("install", "--image", "muster:9", "--replicas", 2, "--set-config", config),
        *("--kubectl", "kubectl-1.36", "--kubeconfig", place),
    )
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [
        "muster: certificate: made, valid for a year",
        "muster: deployment: applied, waiting until Muster serves",
        "muster: webhooks: applied",
    ]
    assert cluster.asked == [("kubectl-1.36", place)]
    deployment = cluster.objects["deployment", "muster"]["spec"]
    assert (deployment["replicas"], deployment["template"]["spec"]["containers"][0]["image"]) == (2, "muster:9")
    assert cluster.objects["configmap", "muster"]["data"] == {"muster.yaml": "mode: warn\n"}


def test_installing_again_is_an_upgrade(muster, cluster):
    assert muster("install", "--replicas", 2).code == 0
    assert muster("install", "--image", "muster:9").code == 0
    deployment = cluster.objects["deployment", "muster"]["spec"]
    assert (deployment["replicas"], deployment["template"]["spec"]["containers"][0]["image"]) == (2, "muster:9")


def test_upgrade_names_the_command_for_a_cluster_without_muster(muster, cluster):
    result = muster("upgrade")
    assert (result.code, cluster.done) == (2, [])
    assert result.err.startswith("muster: there is no Deployment muster in namespace muster-system")
    assert result.err.endswith("run `muster install`\n")
    assert muster("install").code == 0
    assert muster("upgrade", "--image", "muster:9").code == 0
    (container,) = cluster.objects["deployment", "muster"]["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "muster:9"


def test_uninstall_says_what_was_deleted_and_may_be_repeated(muster, cluster):
    assert muster("install").code == 0
    first = muster("uninstall")
    assert first.code == 0
    assert first.err.splitlines()[:2] == [
        "muster: deleted MutatingWebhookConfiguration muster",
        "muster: deleted ValidatingWebhookConfiguration muster",
    ]
    again = muster("uninstall")
    assert again.code == 0
    assert all(line.startswith("muster: not found: ") for line in again.err.splitlines())


@pytest.mark.parametrize("command", ["install", "upgrade", "uninstall"])
def test_a_step_that_fails_ends_with_2_and_its_reason(muster, tmp_path, command):
    result = muster(command, "--kubectl", tmp_path / "none")
    assert (result.code, result.err) == (
        2,
        f"muster: {tmp_path / 'none'}: kubectl was not found; name one with --kubectl\n",
    )


def test_every_line_of_a_reason_is_said_by_muster(muster, cluster):
    cluster.fails = "rollout"
    result = muster("install")
    assert result.code == 2
    assert "muster: its last words" in result.err.splitlines()
    assert all(line.startswith("muster: ") for line in result.err.splitlines())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--replicas", "0"), "'0' is not a number of pods; give 1 or more"),
        (("--replicas", "two"), "'two' is not a number of pods"),
        (("--set-config", "missing.yaml"), "missing.yaml: cannot be read"),
    ],
)
def test_options_that_cannot_be_are_refused_before_the_cluster_is_asked(muster, cluster, options, message):
    result = muster("install", *options)
    assert (result.code, cluster.asked) == (2, [])
    assert message in result.err
