"""What keeps the API server from asking Muster, or from asking rightly, is found for each entry by its name."""

from __future__ import annotations

import pytest

from muster.webhook.doctor import webhook_entries
from tests.doctor import worlds

CREATE, UPDATE = "create.trainjobs.muster.dev", "update.trainjobs.muster.dev"
TITLE = "mutating entry "
GONE = {"matchLabels": {"muster": "wanted"}}

SPOILT = {
    "rules of another operation": (
        CREATE,
        lambda e: e["rules"][0].update(operations=["DELETE"]),
        "error webhooks: {}: its rules do not include CREATE of trainjobs",
    ),
    "rules of another resource": (
        CREATE,
        lambda e: e["rules"][0].update(resources=["jobs"]),
        "error webhooks: {}: its rules do not include CREATE of trainjobs",
    ),
    "no rules": (CREATE, lambda e: e.pop("rules"), "error webhooks: {}: its rules do not include"),
    "a wrong path": (
        CREATE,
        lambda e: e["clientConfig"]["service"].update(path="/mutate"),
        "error webhooks: {}: it calls the path /mutate, but Muster serves this at /mutate/trainjobs",
    ),
    "a wrong path of a URL": (
        CREATE,
        lambda e: e.update(clientConfig={"url": "https://h:1/x?y", "caBundle": worlds.bundle()}),
        "error webhooks: {}: it calls the path /x, but",
    ),
    "another Service": (
        CREATE,
        lambda e: e["clientConfig"]["service"].update(namespace="old"),
        "error webhooks: {}: it calls the Service old/muster, not muster-system/muster",
    ),
    "creation that fails open": (
        CREATE,
        lambda e: e.update(failurePolicy="Ignore"),
        "warning webhooks: {}: failurePolicy is Ignore: while Muster is down, jobs are created without corrections",
    ),
    "an update that fails closed": (
        UPDATE,
        lambda e: e.pop("failurePolicy"),
        "warning webhooks: {}: failurePolicy is Fail: while Muster is down, jobs cannot be suspended or resumed",
    ),
    "less patience than Muster has": (
        CREATE,
        lambda e: e.update(timeoutSeconds=4),
        "warning webhooks: {}: timeoutSeconds is 4, not above Muster's requestTimeout",
    ),
    "exact matching": (
        CREATE,
        lambda e: e.update(matchPolicy="Exact"),
        "warning webhooks: {}: matchPolicy is Exact",
    ),
    "no second call": (
        CREATE,
        lambda e: e.pop("reinvocationPolicy"),
        "warning webhooks: {}: reinvocationPolicy is Never",
    ),
    "another version of reviews": (
        CREATE,
        lambda e: e.update(admissionReviewVersions=["v1beta1"]),
        "error webhooks: {}: admissionReviewVersions lacks v1",
    ),
    "an object selector": (
        CREATE,
        lambda e: e.update(objectSelector=GONE),
        "warning webhooks: {}: objectSelector excludes jobs by labels",
    ),
    "a condition of somebody else": (
        CREATE,
        lambda e: e.update(matchConditions=[{"name": "mine", "expression": "false"}]),
        "warning webhooks: {}: matchConditions[mine] is not in the manifests",
    ),
    "a missing condition": (
        UPDATE,
        lambda e: e["matchConditions"].pop(0),
        "warning webhooks: {}: matchConditions[not-being-deleted] is missing",
    ),
    "a changed condition": (
        UPDATE,
        lambda e: e["matchConditions"][0].update(expression="true"),
        "warning webhooks: {}: matchConditions[not-being-deleted] is changed",
    ),
}


@pytest.mark.parametrize(("entry", "spoil", "said"), SPOILT.values(), ids=SPOILT)
async def test_a_spoilt_entry_is_named_with_what_follows(world, examine, entry, spoil, said):
    spoil(world.entries[entry])
    found = await examine("webhooks")
    assert [line.startswith(said.format(TITLE + entry)) for line in found] == [True]


@pytest.mark.parametrize("path", [worlds.MUTATING, worlds.VALIDATING])
async def test_each_missing_entry_is_named_and_what_is_not_asked(world, examine, path):
    entries, world.objects[path]["webhooks"] = world.objects[path]["webhooks"], []
    found = await examine("webhooks")
    kind = "mutating" if path == worlds.MUTATING else "validating"
    assert [line.partition("; ")[0] for line in found] == [
        f"error webhooks: {kind} entry {entry['name']} is missing, so the API server does not call Muster for "
        f"{entry['rules'][0]['operations'][0]} of {entry['rules'][0]['resources'][0]}"
        for entry in entries
    ]


async def test_a_missing_configuration_is_one_finding(world, examine):
    del world.objects[worlds.VALIDATING]
    (line,) = await examine("webhooks")
    assert line.startswith("error webhooks: ValidatingWebhookConfiguration muster does not exist, so jobs are not ref")


async def test_an_entry_of_another_version_is_a_warning_and_one_of_others_is_none(world, examine):
    entry = world.entries[CREATE]
    world.objects[worlds.MUTATING]["webhooks"] += [
        {**entry, "name": "delete.trainjobs.muster.dev"},
        {**entry, "name": "audit.example.org"},
    ]
    (line,) = await examine("webhooks")
    assert line.startswith(
        "warning webhooks: mutating entry delete.trainjobs.muster.dev is not an entry of this version"
    )


async def test_rules_that_ask_for_more_are_fine(world, examine):
    everything = {key: ["*"] for key in ("operations", "apiGroups", "apiVersions", "resources")}
    world.entries[CREATE]["rules"] = [{"operations": ["CONNECT"]}, everything]
    world.entries[UPDATE]["rules"][0]["operations"] = ["CREATE", "UPDATE"]
    (line,) = await examine("webhooks")
    assert line.startswith("ok webhooks: all 8 entries")


async def test_the_patience_of_the_configuration_is_what_counts(world, examine):
    world.configure("server: {requestTimeout: 8}")
    found = await examine("webhooks")
    assert len(found) == len(world.every_entry())
    assert all("timeoutSeconds is 5, not above Muster's requestTimeout (8)" in line for line in found)


async def test_entries_that_leave_every_namespace_out_are_an_error(world, examine):
    world.entries[CREATE]["namespaceSelector"] = GONE
    (line,) = await examine("namespaces")
    assert line.startswith(f"error namespaces: {TITLE}{CREATE}: its namespaceSelector matches no namespace")


async def test_an_entry_that_takes_musters_own_namespace_is_a_warning(world, examine):
    world.entries[CREATE]["namespaceSelector"] = {}
    (line,) = await examine("namespaces")
    assert line.startswith(f"warning namespaces: {TITLE}{CREATE}: its namespaceSelector matches muster-system")


async def test_namespaces_that_are_left_out_are_named_five_at_most(world, examine):
    extra = [worlds.namespace(f"lab-{number}", muster="no") for number in range(7)]
    world.objects[worlds.NAMESPACES]["items"] += extra
    for entry in world.every_entry():
        term = {"key": "muster", "operator": "NotIn", "values": ["no"]}
        entry["namespaceSelector"]["matchExpressions"].append(term)
    (line,) = await examine("namespaces")
    assert line.startswith("warning namespaces: not all entries apply in lab-0, lab-1, lab-2, lab-3, lab-4 and 2 more")


async def test_where_the_configuration_names_namespaces_these_are_the_ones_that_count(world, examine):
    world.objects[worlds.NAMESPACES]["items"] += [worlds.namespace("team-b"), worlds.namespace("lab")]
    for entry in world.every_entry():
        term = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-b"]}
        entry["namespaceSelector"]["matchExpressions"].append(term)
    world.configure("cluster: {namespaces: [team-b]}")
    (line,) = await examine("namespaces")
    assert line.startswith("ok namespaces: all entries apply in all 1 namespaces of users")
    world.configure("cluster: {namespaces: [team-b, lab]}")
    (line,) = await examine("namespaces")
    assert line.startswith("warning namespaces: not all entries apply in lab: jobs there are not corrected")


@pytest.mark.parametrize(
    ("selector", "taken"),
    [
        (None, True),
        ({}, True),
        ({"matchLabels": {"a": "1"}}, True),
        ({"matchLabels": {"a": "2"}}, False),
        ({"matchLabels": {"a": "1", "b": "1"}}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, True),
        ({"matchExpressions": [{"key": "b", "operator": "In", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
        ({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Sometimes"}]}, False),
    ],
)
def test_selectors_match_as_the_api_server_has_them(selector, taken):
    assert webhook_entries.selects(selector, {"a": "1"}) is taken
