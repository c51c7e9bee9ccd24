"""Muster's rights are those of the manifests, no more and no fewer, and each that is missing is named."""

from __future__ import annotations

import sys

import pytest
import yaml

from muster.webhook import manifests
from muster.webhook.doctor import expected_state
from tests.doctor import worlds
from tests.manifests import files

ALWAYS = [right for right in worlds.base().rights if not right.option]
CERTIFICATES = [right for right in worlds.base().rights if right.option == ("tls", "secret")]


def asked(world):
    return [spec for kind, _, spec in world.asked if kind == "SubjectAccessReview"]


def test_every_file_with_rbac_rules_has_its_option():
    found = {path.name for path in files.FOLDER.glob("*/rbac*.yaml")} | {
        path.name for path in files.FOLDER.glob("overlays/*/rbac*.yaml")
    }
    assert found <= set(expected_state.OPTIONAL_RIGHTS)
    assert {"rbac.yaml", "rbac-controllers.yaml", "rbac-certificates.yaml"} <= found


def test_every_rule_of_the_manifests_is_expected():
    documents = [
        document
        for pattern in ("base/rbac*.yaml", "overlays/*/rbac*.yaml")
        for path in files.FOLDER.glob(pattern)
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] in ("Role", "ClusterRole")
    ]
    rules = [rule for document in documents for rule in document["rules"]]
    wanted = {
        (verb, group, resource, name)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
    }
    assert {(each.verb, each.group, each.resource, each.name) for each in worlds.base().rights} == wanted


async def test_reading_is_asked_about_everywhere_and_for_the_account_with_its_groups(world, examine):
    (line,) = await examine("rights")
    assert line.startswith(f"ok rights: system:serviceaccount:muster-system:muster has all {len(ALWAYS)} permissions")
    reviews = asked(world)
    assert len(reviews) == len(ALWAYS)
    assert all("namespace" not in each["resourceAttributes"] for each in reviews)
    assert {each["user"] for each in reviews} == {"system:serviceaccount:muster-system:muster"}
    groups = ["system:serviceaccounts", "system:serviceaccounts:muster-system", "system:authenticated"]
    assert all(each["groups"] == groups for each in reviews)


async def test_where_namespaces_are_named_rights_are_asked_about_in_each_of_them(world, examine):
    world.configure("cluster: {namespaces: [team-a, team-b]}")
    world.revoked = {"get configmaps"}
    found = await examine("rights")
    spaces = [each["resourceAttributes"].get("namespace") for each in asked(world)]
    assert spaces.count("team-a") == spaces.count("team-b") == len(ALWAYS)
    assert [line.partition(" may not ")[2].partition(";")[0] for line in found] == [
        "get configmaps in team-a",
        "get configmaps in team-b",
    ]


async def test_missing_verbs_of_a_resource_are_one_finding(world, examine):
    world.revoked = {"list nodes", "watch nodes", "get configmaps"}
    found = await examine("rights")
    assert [line.partition(" may not ")[2].partition(";")[0] for line in found] == [
        "get configmaps",
        "list, watch nodes",
    ]
    assert all(line.startswith("error rights: ") for line in found)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("", set()),
        ("controllers: {enabled: false}", set()),
        ("controllers: {enabled: true}", {("controllers", "enabled")}),
        ("tls: {secret: {}}", {("tls", "secret")}),
        ("tls: {secret: null}", set()),
        ("a: [", set()),
        ("[]", set()),
    ],
)
async def test_rights_that_an_option_needs_are_asked_about_where_it_is_on(world, examine, text, options):
    world.configure(text)
    await examine("rights")
    wanted = [right for right in worlds.base().rights if not right.option or right.option in options]
    assert len(asked(world)) == len(wanted)


@pytest.mark.parametrize(
    ("value", "resources"),
    [("none", set()), ("openreports", {"reports"}), ("policyreport", {"policyreports"}), ("false", set())],
)
async def test_of_rights_that_depend_on_a_value_those_of_the_value_are_asked_about(world, examine, value, resources):
    world.configure(f"audit: {{reports: {value}}}")
    await examine("rights")
    found = [each["resourceAttributes"]["resource"] for each in asked(world)]
    assert {each for each in found if each.endswith("reports")} == resources
    assert len(found) == len(ALWAYS) + 3 * len(resources)


async def test_rights_for_anchors_are_asked_about_in_musters_own_namespace(world, examine):
    world.configure("audit: {anchors: configmap}")
    await examine("rights")
    attributes = [each["resourceAttributes"] for each in asked(world)]
    found = {tuple(each.get(key) for key in ("verb", "name", "namespace")) for each in attributes}
    assert {("create", None, "muster-system"), ("update", "muster-audit-anchors", "muster-system")} < found


async def test_a_missing_right_of_an_option_names_the_option(world, examine):
    world.configure("controllers: {enabled: true}")
    world.revoked = {"patch pods"}
    (line,) = await examine("rights")
    assert "may not patch pods, which controllers.enabled needs" in line


async def test_rights_in_musters_own_namespace_are_asked_about_there(world, examine):
    world.configure("tls: {secret: {}}")
    await examine("rights")
    secrets = [
        each["resourceAttributes"] for each in asked(world) if each["resourceAttributes"]["resource"] == "secrets"
    ]
    assert {(each["verb"], each.get("name"), each["namespace"]) for each in secrets} == {
        ("create", None, "muster-system"),
        ("get", "muster-ca", "muster-system"),
        ("update", "muster-ca", "muster-system"),
    }


async def test_objects_that_the_configuration_calls_otherwise_are_asked_about_by_that_name(world, examine):
    world.configure("tls: {secret: {name: own-ca, lease: {name: own-lease}}}")
    await examine("rights")
    names = {each["resourceAttributes"].get("name") for each in asked(world)}
    assert names == {None, "own-ca", "own-lease", "muster"}


def test_manifests_that_cannot_be_read_are_an_error(tmp_path):
    (tmp_path / "a.yaml").write_text("kind: [")
    with pytest.raises(expected_state.ExpectationError, match=r"a\.yaml"):
        expected_state.read([tmp_path])


def test_manifests_without_webhooks_are_an_error(tmp_path):
    (tmp_path / "a.yaml").write_text("apiVersion: v1\nkind: ConfigMap\n")
    with pytest.raises(expected_state.ExpectationError, match="has no MutatingWebhookConfiguration and no Validating"):
        expected_state.read([tmp_path])


def test_an_installation_has_the_manifests_beside_its_interpreter(monkeypatch, tmp_path):
    monkeypatch.setattr(manifests, "_CHECKOUT", tmp_path / "none")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    with pytest.raises(expected_state.ExpectationError, match="install the package muster again"):
        expected_state.places()
    installed = tmp_path / "share" / "muster" / "base"
    installed.mkdir(parents=True)
    assert expected_state.places() == [installed]
