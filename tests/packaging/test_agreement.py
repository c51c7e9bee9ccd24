"""The chart and the kustomizations install the same thing.

Two pairs are compared: the base, which `muster install` completes with a certificate, with the chart in
tls.mode files; and the overlay for production with the chart as it is.
"""

from __future__ import annotations

import base64
import copy

import pytest

from tests.manifests import files
from tests.packaging import choices, renders

HELMS = ("app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by", "helm.sh/chart")
IMAGE = {"registry": "", "repository": "muster-webhook"}
NO_RUNTIMES = {"trlDistributed": {"enabled": False}}
PAIRS = {
    "base": {
        "image": IMAGE,
        "replicas": 1,
        "tls": {"mode": "files", "files": {"caBundle": renders.PEM}},
        "runtimes": NO_RUNTIMES,
        "priorityClassName": "",
        "podDisruptionBudget": {"enabled": False},
        "networkPolicy": {"enabled": False},
    },
    "overlays/production": {"image": IMAGE, "runtimes": NO_RUNTIMES},
}

each_pair = pytest.mark.parametrize("folder", list(PAIRS))


def normal(documents, *, parse=True):
    """Documents by kind and name, without what the two ways are meant to differ in; the configuration is parsed."""
    out = {}
    for document in copy.deepcopy(documents):
        kind, metadata = document["kind"], document["metadata"]
        if kind == "Namespace":  # Helm's own --create-namespace makes it
            continue
        metadata["labels"] = {key: each for key, each in metadata["labels"].items() if key not in HELMS}
        if kind == "Deployment":
            annotations = document["spec"]["template"]["metadata"].pop("annotations", {})
            assert set(annotations) <= {"muster.dev/config-digest"}
        if kind == "ConfigMap" and parse:
            document["data"] = renders.config(documents)
        for entry in document.get("webhooks", ()):
            entry["clientConfig"].pop("caBundle", None)  # the base gets it from `muster install`
            for condition in entry.get("matchConditions", ()):
                condition["expression"] = " ".join(condition["expression"].split())
        out[kind, metadata["name"]] = document
    return out


@each_pair
def test_the_chart_renders_what_the_kustomization_does(helm, kubectl, folder):
    chart, kustomization = normal(helm.template(PAIRS[folder])), normal(renders.kustomize(kubectl, folder))
    assert set(chart) == set(kustomization)
    for key, document in kustomization.items():
        assert chart[key] == document, key


@each_pair
def test_a_difference_would_be_seen(helm, kubectl, folder):
    expected = normal(renders.kustomize(kubectl, folder))
    changes = {
        "Service": lambda each: each["spec"]["ports"][0].update(port=444),
        "ClusterRole/muster": lambda each: each["rules"][0]["verbs"].append("delete"),
        "ConfigMap": lambda each: each["data"].update({"muster.yaml": "mode: warn\n"}),
        "ValidatingWebhookConfiguration": lambda each: each["webhooks"][0].update(failurePolicy="Ignore"),
    }
    for place, change in changes.items():
        documents = renders.kustomize(kubectl, folder)
        kind, _, name = place.partition("/")
        change(renders.one(documents, kind, name))
        assert normal(documents) != expected, place


@pytest.mark.parametrize(
    ("file", "role", "values"),
    [
        ("rbac-anchors.yaml", "muster-anchors", {"config": {"audit": {"anchors": "configmap"}}}),
        ("rbac-controllers.yaml", "muster-controllers", {"controllers": {"enabled": True}}),
        ("rbac-dry-runs.yaml", "muster-dry-runs", {"config": {"checks": {"dryRun": True}}}),
        ("rbac-events.yaml", "muster-events", {"config": {"audit": {"events": True}}}),
        ("rbac-trainings.yaml", "muster-trainings", {"config": {"trainings": {"enabled": True}}}),
        ("rbac-openreports.yaml", "muster-openreports", {"config": {"audit": {"reports": "openreports"}}}),
        ("rbac-policyreports.yaml", "muster-policyreports", {"config": {"audit": {"reports": "policyreport"}}}),
    ],
)
def test_rights_of_an_option_come_with_it_and_are_those_of_the_kustomizations_file(helm, file, role, values):
    extra = files.documents(files.FOLDER / "overlays" / "production" / file)
    rendered = normal(helm.template(values), parse=False)
    for document in extra:
        chart = rendered[document["kind"], role]
        assert chart == {**document, "metadata": chart["metadata"]}
    options = ("anchors", "controllers", "dry-runs", "events", "openreports", "policyreports", "trainings")
    others = {f"muster-{each}" for each in options} - {role}
    assert not [name for _, name in rendered if name in others]
    assert not [each for each in helm.template() if each["metadata"]["name"] == role]


PAGE = {**PAIRS["overlays/production"], **choices.PAGE}


def test_the_audit_page_is_that_of_its_kustomization(helm, kubectl):
    without, with_page = normal(helm.template(PAIRS["overlays/production"])), normal(helm.template(PAGE))
    extra = normal(renders.kustomize(kubectl, "audit-page"))
    assert set(with_page) - set(without) == set(extra)
    for key, document in extra.items():
        assert with_page[key] == document, key


SESSIONS = {
    **PAIRS["overlays/production"],
    "gateway": {
        **choices.GATEWAY,
        "image": IMAGE | {"repository": "muster-gateway"},
        "engines": {"namespace": "muster-engines", "image": IMAGE | {"repository": "muster-engine"}},
    },
}


def test_the_gateway_is_that_of_its_kustomization_with_the_same_rights(helm, kubectl):
    without, with_gateway = normal(helm.template(PAIRS["overlays/production"])), normal(helm.template(SESSIONS))
    extra = normal(renders.kustomize(kubectl, "sessions"))
    assert set(with_gateway) - set(without) == set(extra)
    for key, document in extra.items():
        assert with_gateway[key] == document, key
    rights = {(each["kind"], each["metadata"]["name"]): each for each in files.documents(files.FOLDER / RIGHTS)}
    for key, document in rights.items():
        assert with_gateway[key] == {**document, "metadata": with_gateway[key]["metadata"]}
    assert {kind for kind, _ in extra} - {kind for kind, _ in rights} == {
        "Deployment", "NetworkPolicy", "PodDisruptionBudget", "Service", "ServiceAccount",
        "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    }  # fmt: skip


def test_the_agents_of_devices_are_those_of_their_kustomization(helm, kubectl):
    seat = {"deviceClass": "gpu.nvidia.com", "sharing": "shared", "maxSessions": 4}
    gateway = {**SESSIONS["gateway"], "engines": {**SESSIONS["gateway"]["engines"], "profile": "seat"}}
    without = {**SESSIONS, "gateway": gateway, "config": {"profiles": {"seat": seat}}}
    leased = {**without, "gateway": {**gateway, "devices": {"enabled": True, "namespace": "muster-devices"}}}
    before, after = normal(helm.template(without)), normal(helm.template(leased))
    extra = normal(renders.kustomize(kubectl, "sessions/devices"))
    assert set(after) - set(before) == set(extra)
    for key, document in extra.items():
        assert after[key] == document, key
    words, more = (
        each["Deployment", "gateway"]["spec"]["template"]["spec"]["containers"][0]["args"] for each in (before, after)
    )
    assert [each for each in more if each not in words] == ["--device-lease=/run/muster/devices/lease.sock"]


RIGHTS = "sessions/rbac.yaml"


def test_the_patch_for_the_volume_is_what_the_chart_adds(helm):
    (patch,) = files.documents(files.FOLDER / "audit-page" / "webhook-volume.yaml")
    spec = patch["spec"]["template"]["spec"]
    before, after = (
        normal(helm.template(each))["Deployment", "muster"]["spec"]["template"]["spec"]
        for each in (PAIRS["overlays/production"], PAGE)
    )
    (container,) = spec["containers"]
    assert after["volumes"] == [*before["volumes"], *spec["volumes"]]
    mounts = [*before["containers"][0]["volumeMounts"], *container["volumeMounts"]]
    assert after["containers"] == [{**before["containers"][0], "env": container["env"], "volumeMounts": mounts}]


def test_the_ca_of_files_is_in_every_entry(helm):
    documents = helm.template(PAIRS["base"])
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        bundles = {each["clientConfig"]["caBundle"] for each in renders.one(documents, kind)["webhooks"]}
        assert [base64.b64decode(each).decode() for each in bundles] == [renders.PEM]


def test_where_muster_or_cert_manager_writes_the_ca_helm_does_not(helm):
    for mode in ("secret", "certManager"):
        documents = helm.template({"tls": {"mode": mode}})
        for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
            assert not any("caBundle" in each["clientConfig"] for each in renders.one(documents, kind)["webhooks"])
