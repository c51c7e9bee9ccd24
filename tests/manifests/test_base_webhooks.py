"""Each webhook entry calls what the server serves, fails the right way, and is not called where it is of no use."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.changes import restores
from muster.strategies.changes.changes import Changes
from muster.strategies.documents import names
from muster.webhook.cluster import kinds
from muster.webhook.server import handlers
from tests.manifests import bases

ENTRIES = bases.webhooks()
RESOURCES = {
    "TrainJob": (kinds.TRAINER_GROUP, "trainjobs"),
    "JobSet": ("jobset.x-k8s.io", "jobsets"),
    "OptimizationJob": (kinds.TRAINER_GROUP, "optimizationjobs"),
}
VERSIONS = {"TrainJob": kinds.KINDS["TrainJob"].version, "JobSet": "v1alpha2", "OptimizationJob": "v1alpha1"}

each_entry = pytest.mark.parametrize(
    ("phase", "entry"), ENTRIES, ids=[f"{phase}-{entry['name']}" for phase, entry in ENTRIES]
)


def operation_of(entry):
    ((operation,),) = (rule["operations"] for rule in entry["rules"])
    return operation


def condition(entry, name):
    found = {each["name"]: " ".join(each["expression"].split()) for each in entry.get("matchConditions", ())}
    return found.get(name)


@each_entry
def test_an_entry_calls_a_path_that_the_server_serves_for_its_kind_and_phase(phase, entry):
    served_phase, kind = handlers.ADMISSION_PATHS[entry["clientConfig"]["service"]["path"]]
    (rule,) = entry["rules"]
    assert served_phase == phase
    assert (*rule["apiGroups"], *rule["resources"]) == RESOURCES[kind]
    assert rule["apiVersions"] == [VERSIONS[kind]]
    assert rule["scope"] == "Namespaced"


def test_every_path_that_is_served_is_called_when_a_job_is_created():
    called = {entry["clientConfig"]["service"]["path"] for _, entry in ENTRIES if operation_of(entry) == "CREATE"}
    assert called == set(handlers.ADMISSION_PATHS)


@each_entry
def test_creation_fails_closed_and_updates_fail_open(phase, entry):
    assert entry["failurePolicy"] == {"CREATE": "Fail", "UPDATE": "Ignore"}[operation_of(entry)]
    (rule,) = entry["rules"]
    assert entry["name"] == f"{operation_of(entry).lower()}.{rule['resources'][0]}.muster.dev"


@each_entry
def test_an_entry_is_safe_for_dry_runs_other_versions_and_other_webhooks(phase, entry):
    assert entry["sideEffects"] == "None"
    assert entry["matchPolicy"] == "Equivalent"
    assert entry.get("reinvocationPolicy") == ("IfNeeded" if phase == "mutate" else None)
    assert entry["admissionReviewVersions"] == ["v1"]


@each_entry
def test_an_entry_leaves_out_the_namespaces_that_must_come_up_without_muster(phase, entry):
    (selector,) = entry["namespaceSelector"]["matchExpressions"]
    assert (selector["key"], selector["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert set(selector["values"]) == {"kube-system", bases.kustomization()["namespace"]}


@each_entry
def test_only_updates_have_conditions_since_one_that_fails_would_refuse_a_creation(phase, entry):
    deleted = condition(entry, "not-being-deleted")
    assert deleted == ("!has(object.metadata.deletionTimestamp)" if operation_of(entry) == "UPDATE" else None)


@each_entry
def test_updates_are_mutated_only_where_there_can_be_something_to_restore(phase, entry):
    expected = (
        "[object, oldObject].exists(each, has(each.metadata.annotations)"
        f" && '{names.APPLIED_ANNOTATION}' in each.metadata.annotations)"
    )
    mutated = phase == "mutate" and operation_of(entry) == "UPDATE"
    claims = f"(has(object.spec) && has(object.spec.volumeClaimPolicies)) || {expected}"
    jobset = "jobsets" in entry["name"]
    assert condition(entry, "changed-by-muster") == (expected if mutated and not jobset else None)
    assert condition(entry, "something-to-restore") == (claims if mutated and jobset else None)


OBJECTS = st.fixed_dictionaries(
    {
        "metadata": st.dictionaries(
            st.just("annotations"), st.dictionaries(st.sampled_from(["a", "muster.dev/mode"]), st.text(max_size=3))
        ),
        "spec": st.dictionaries(st.sampled_from(["trainer", "suspend", "network"]), st.integers()),
    }
)


@given(old=OBJECTS, new=OBJECTS)
def test_an_update_without_that_annotation_on_either_side_would_not_be_changed(old, new):
    changes = Changes(new)
    restores.restore(old, changes)
    assert len(changes) == 0


@each_entry
def test_muster_gives_up_before_the_api_server_does(phase, entry):
    config = bases.config()
    assert config.cluster.deadline < config.server.request_timeout < entry["timeoutSeconds"] <= 10


@each_entry
def test_the_service_that_is_called_is_ours_and_its_name_is_what_the_certificate_is_for(phase, entry):
    service, called = bases.one("Service"), entry["clientConfig"]["service"]
    assert "caBundle" not in entry["clientConfig"]
    assert called["name"] == service["metadata"]["name"] == bases.config().tls.service
    assert called["namespace"] == bases.kustomization()["namespace"] == bases.config().tls.namespace
    assert called["port"] == service["spec"]["ports"][0]["port"] == 443
