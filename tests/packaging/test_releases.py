"""The order in which helm does things: nobody is called who cannot answer, neither at the beginning nor at the end.

The real helm, against an API server that only keeps objects and remembers what was done.
"""

from __future__ import annotations

import pytest

from tests.packaging import renders

WEBHOOKS = {f"{kind.lower()}s" for kind in renders.WEBHOOKS}
NO_RUNTIMES = ("--set", "runtimes.trlDistributed.enabled=false")


@pytest.fixture
def release(helm, api, tmp_path):
    """A function that runs helm for the release `muster` and returns what it did to the cluster, in order."""
    kubeconfig = api.kubeconfig(tmp_path / "kubeconfig")

    def run(*arguments):
        api.done.clear()
        done = helm.run(*arguments, "--namespace", renders.NAMESPACE, "--kubeconfig", kubeconfig)
        assert done.returncode == 0, done.stderr
        return [(method, path.split("/")[-2]) for method, path in api.done if "helm.release" not in path]

    return run


def install(release, *options):
    return release("install", "muster", renders.CHART, *NO_RUNTIMES, *options)


def test_at_an_installation_the_webhook_configurations_come_last(release):
    made = [plural for _, plural in install(release)]
    assert set(made[-2:]) == WEBHOOKS
    assert {"deployments", "services", "secrets", "clusterrolebindings"} - set(made) == {"secrets"}


def test_before_anything_else_is_deleted_nothing_calls_muster_any_more(release, api):
    install(release)
    done = release("uninstall", "muster")
    first = done.index(("DELETE", "services"))
    deleted = [plural for method, plural in done[:first] if method == "DELETE"]
    assert set(deleted) == WEBHOOKS
    assert not WEBHOOKS & {plural for _, plural in done[first:]}
    assert sorted(api.objects) == ["/api/v1/namespaces/kube-system"]


def test_what_stands_in_for_a_configuration_meanwhile_calls_nobody(release, api):
    install(release)
    live = {path: each for path, each in api.objects.items() if path.split("/")[-2] in WEBHOOKS}
    assert all(each["webhooks"] for each in live.values())
    stood_in = []
    api.seen = lambda method, path, body: stood_in.append(body) if method == "PATCH" and path in live else None
    release("uninstall", "muster")
    assert [each["webhooks"] for each in stood_in] == [[], []]
    for each in stood_in:
        owner = {"meta.helm.sh/release-name": "muster", "meta.helm.sh/release-namespace": renders.NAMESPACE}
        assert owner.items() <= each["metadata"]["annotations"].items()


def test_a_second_try_finds_what_the_first_has_left(release, api):
    install(release)
    for path in [path for path in api.objects if path.split("/")[-2] in {*WEBHOOKS, "services"}]:
        del api.objects[path]
    release("uninstall", "muster")
    assert sorted(api.objects) == ["/api/v1/namespaces/kube-system"]


def test_rendered_for_other_tools_the_stand_ins_are_not_there(helm):
    documents = helm.template()
    assert not any("helm.sh/hook" in each["metadata"].get("annotations", {}) for each in documents)


def test_muster_can_be_installed_first_and_called_later_and_let_go_again(release, api):
    assert not WEBHOOKS & {plural for _, plural in install(release, "--set", "webhooks.enabled=false")}
    release("upgrade", "muster", renders.CHART, *NO_RUNTIMES)
    assert api.names("mutatingwebhookconfigurations") == api.names("validatingwebhookconfigurations") == {"muster"}
    again = release("upgrade", "muster", renders.CHART, *NO_RUNTIMES, "--set", "webhooks.enabled=false")
    assert {plural for method, plural in again if method == "DELETE"} == WEBHOOKS
    assert api.names("deployments") == {"muster"}
