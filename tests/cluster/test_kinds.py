from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.kube import transports
from muster.webhook.cluster import kinds, readers

KINDS = kinds.KINDS


@pytest.mark.parametrize(
    ("kind", "namespace", "name", "path"),
    [
        ("TrainJob", "", "", "/apis/trainer.kubeflow.org/v1alpha1/trainjobs"),
        ("TrainJob", "team-a", "llama", "/apis/trainer.kubeflow.org/v1alpha1/namespaces/team-a/trainjobs/llama"),
        ("ClusterTrainingRuntime", "", "trl", "/apis/trainer.kubeflow.org/v1alpha1/clustertrainingruntimes/trl"),
        ("RuntimeSnapshot", "team-a", "llama", "/api/v1/namespaces/team-a/configmaps/llama-runtime-snapshot"),
        ("Namespace", "", "team-a", "/api/v1/namespaces/team-a"),
        (
            "ResourceClaimTemplate",
            "team-a",
            "gpus",
            "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaimtemplates/gpus",
        ),
        ("ResourceClaim", "team-a", "gpu", "/apis/resource.k8s.io/v1/namespaces/team-a/resourceclaims/gpu"),
        ("DeviceClass", "", "gpu.example.com", "/apis/resource.k8s.io/v1/deviceclasses/gpu.example.com"),
    ],
)
def test_a_kind_knows_where_the_api_server_serves_it(kind, namespace, name, path):
    assert KINDS[kind].path(namespace, name) == path


ODD = (
    "../../secrets/x",
    "..",
    ".",
    "x/../../secrets",
    "?watch=true",
    "%2f",
    "%2e%2e",
    "a%2fb",
    "x" * 5000,
    "a;b",
    "é",
    " ",
)


@pytest.mark.parametrize("odd", ODD)
def test_an_odd_name_or_namespace_never_reaches_a_url_since_the_api_server_reads_escaped_slashes_as_slashes(odd):
    for kind in (*KINDS.values(), kinds.POD, kinds.EVENT, kinds.SECRET):
        for namespace, name in (("team-a", odd), (odd, "x"), (odd, "")):
            if kind.namespaced or namespace != odd:
                with pytest.raises(transports.RefusedError, match=r"HTTP 404: no .* as its name or namespace"):
                    kind.path(namespace, name)


@given(st.text(min_size=1, max_size=40), st.text(min_size=1, max_size=40))
def test_no_name_leads_out_of_its_path(namespace, name):
    kind = KINDS["TrainJob"]
    if kind.can_exist(readers.Ref("TrainJob", namespace, name)):
        assert kind.path(namespace, name).endswith(f"/namespaces/{namespace}/trainjobs/{name}")
        assert kind.path(namespace, name).count("/") == 7
    else:
        with pytest.raises(transports.RefusedError):
            kind.path(namespace, name)


@pytest.mark.parametrize("name", ["", "..", ".", "a/b", "A", "a b", "-a", "a-", "é", "a\n", "x" * 254])
def test_a_name_that_no_api_server_takes_cannot_exist(name):
    assert not KINDS["TrainJob"].can_exist(readers.Ref("TrainJob", "team-a", name))


def test_a_namespaced_kind_needs_a_namespace_and_others_must_not_have_one():
    assert not KINDS["TrainJob"].can_exist(readers.Ref("TrainJob", "", "llama"))
    assert not KINDS["Namespace"].can_exist(readers.Ref("Namespace", "team-a", "team-a"))
    assert KINDS["Namespace"].can_exist(readers.Ref("Namespace", "", "team-a"))


def noisy(document):
    metadata = {
        **document["metadata"],
        "managedFields": [{"manager": "trainer"}],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "kept"},
    }
    return {**document, "metadata": metadata, "status": {"conditions": []}, "unknown": {"future": 1}}


def test_trimming_drops_what_is_never_read_and_keeps_the_unknown(trainjob):
    trimmed = KINDS["TrainJob"].trim(noisy(trainjob()))
    assert trimmed == {
        **trainjob(),
        "metadata": {"name": "llama", "namespace": "team-a", "annotations": {"mine": "kept"}},
        "unknown": {"future": 1},
    }


def test_trimming_leaves_the_original_alone_and_twice_is_once(trainjob):
    document = noisy(trainjob())
    before = copy.deepcopy(document)
    trimmed = KINDS["TrainJob"].trim(document)
    assert document == before
    assert KINDS["TrainJob"].trim(trimmed) == trimmed


def test_an_item_of_a_list_gets_the_type_that_lists_leave_out():
    trimmed = KINDS["ResourceClaimTemplate"].trim({"metadata": {"name": "gpus", "namespace": "team-a"}, "spec": {}})
    assert (trimmed["apiVersion"], trimmed["kind"]) == ("resource.k8s.io/v1", "ResourceClaimTemplate")


def test_only_the_metadata_of_a_namespace_is_kept():
    document = {"metadata": {"name": "team-a", "labels": {"muster.dev/mode": "warn"}}, "spec": {"finalizers": []}}
    assert KINDS["Namespace"].trim(document) == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "team-a", "labels": {"muster.dev/mode": "warn"}},
    }


@pytest.mark.parametrize("name", ["kube-root-ca.crt", "-runtime-snapshot", "runtime-snapshot-of-mine"])
def test_a_configmap_that_is_no_snapshot_is_not_kept(name):
    assert KINDS["RuntimeSnapshot"].ref({"metadata": {"name": name, "namespace": "team-a"}}) is None


def test_a_snapshot_goes_by_the_name_of_its_trainjob(snapshot):
    assert KINDS["RuntimeSnapshot"].ref(snapshot("")) == readers.Ref("RuntimeSnapshot", "team-a", "llama")


def test_the_kind_of_a_document_is_known_by_group_and_not_by_version(trainjob):
    assert kinds.kind_of({**trainjob(), "apiVersion": "trainer.kubeflow.org/v2"}) is KINDS["TrainJob"]
    assert kinds.kind_of({**trainjob(), "apiVersion": "kubeflow.org/v1"}) is None
    assert kinds.kind_of({}) is None


def test_an_unknown_kind_is_an_error_that_names_the_known_ones():
    with pytest.raises(
        readers.UnknownKindError, match=r"'Pod' is not read by Muster; it reads TrainJob, TrainingRuntime"
    ):
        kinds.named("Pod")


def test_the_rbac_hint_names_the_resource_and_what_is_done_with_it():
    assert KINDS["RuntimeSnapshot"].rbac == "get, list, watch on configmaps.core"
    assert KINDS["Node"].rbac == "list, watch on nodes.core"
    assert KINDS["TrainJob"].rbac == "get, list, watch on trainjobs.trainer.kubeflow.org"
