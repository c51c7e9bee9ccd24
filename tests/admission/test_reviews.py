from __future__ import annotations

import copy

import orjson
import pytest

from muster.webhook.admission import reviews
from muster.webhook.admission.reviews import ReviewError
from tests.support import admissions, jobs

JOB = jobs.make_trainjob(command=["trl", "sft"], numNodes=2)


def parse(review, phase="mutate"):
    return reviews.parse(orjson.dumps(review), phase)


def changed(**request):
    """A valid review with members of its request replaced; ... takes one away."""
    review = admissions.make_review(copy.deepcopy(JOB))
    review["request"].update(request)
    review["request"] = {name: value for name, value in review["request"].items() if value is not ...}
    return review


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "not readable JSON"),
        (b"null", "not an AdmissionReview"),
        (b"[]", "not an AdmissionReview"),
        (b"{}", "not an AdmissionReview"),
        (b"apiVersion: v1", "not readable JSON"),
        (b"{" * 10, "not readable JSON"),
        (b'{"kind": "AdmissionReview"', "not readable JSON"),
        (b'{"kind": "AdmissionReview", "x": "\xff"}', "not readable JSON"),
        (b'{"kind": "AdmissionReview", "x": "\\ud800"}', "not readable JSON"),
        (b'{"kind": "AdmissionReview", "x": NaN}', "not readable JSON"),
        (b"[" * 100_000 + b"]" * 100_000, "not readable JSON"),
        (b'{"kind":"AdmissionReview","request":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001, "not readable JSON"),
        (b'{"kind": "Pod"}', "not an AdmissionReview"),
        (b'{"kind": "AdmissionReview"}', "request: an object is required"),
        (b'{"kind": "AdmissionReview", "request": []}', "request: an object is required"),
    ],
)
def test_a_body_that_is_no_review_is_refused_without_an_answer(body, message):
    with pytest.raises(ReviewError, match=message) as refused:
        reviews.parse(body, "mutate")
    assert refused.value.uid == ""


@pytest.mark.parametrize("depth", [161, 210, 240, 900])
def test_an_object_nested_deeper_than_can_be_written_again_is_refused_at_once(depth):
    body = orjson.dumps(changed(object={**JOB, "deep": 0})).replace(
        b'"deep":0', b'"deep":' + b"[" * depth + b"]" * depth
    )
    with pytest.raises(ReviewError, match="nested too deeply"):
        reviews.parse(body, "mutate")


def test_many_deep_lists_do_not_end_the_process():
    lists = b",".join([b"[" * 240 + b"]" * 240] * 20)  # orjson 3.13.0 writes these beyond its buffer
    body = orjson.dumps(changed(object={**JOB, "deep": 0})).replace(b'"deep":0', b'"deep":[' + lists + b"]")
    with pytest.raises(ReviewError, match="nested too deeply"):
        reviews.parse(body, "mutate")


@pytest.mark.parametrize("uid", [..., "", 5, None, ["x"], {}])
def test_a_request_without_a_uid_cannot_be_answered(uid):
    with pytest.raises(ReviewError, match=r"request\.uid: a string is required") as refused:
        parse(changed(uid=uid))
    assert refused.value.uid == ""


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"operation": ...}, r"request\.operation: a string is required"),
        ({"operation": "PATCH"}, r"request\.operation: 'PATCH' is not one of CREATE, UPDATE, DELETE, CONNECT"),
        ({"operation": ["CREATE"]}, r"request\.operation: a string is required"),
        ({"kind": ...}, r"request\.kind: an object is required"),
        ({"kind": "TrainJob"}, r"request\.kind: an object is required"),
        ({"kind": {"group": "x"}}, r"request\.kind\.kind: a string is required"),
        ({"kind": {"kind": 3}}, r"request\.kind\.kind: a string is required"),
        ({"object": ...}, r"request\.object: an object is required"),
        ({"object": None}, r"request\.object: an object is required"),
        ({"object": "text"}, r"request\.object: an object is required"),
        ({"object": [1]}, r"request\.object: an object is required"),
        ({"operation": "UPDATE", "oldObject": ...}, r"request\.oldObject: an object is required for UPDATE"),
        ({"operation": "UPDATE", "oldObject": "text"}, r"request\.oldObject: an object is required for UPDATE"),
        ({"oldObject": 5}, r"request\.oldObject: an object is required"),
    ],
)
def test_a_missing_or_wrong_member_is_named_and_the_request_can_still_be_answered(request_, message):
    with pytest.raises(ReviewError, match=message) as refused:
        parse(changed(**request_))
    assert refused.value.uid == admissions.UID


@pytest.mark.parametrize("version", [None, "", "admission.k8s.io/v1beta1", "v1", 1, ["admission.k8s.io/v1"]])
def test_another_version_is_refused_with_the_one_that_is_served(version):
    review = {**changed(), "apiVersion": version}
    with pytest.raises(ReviewError, match=r"is not served; send admission\.k8s\.io/v1") as refused:
        parse(review)
    assert refused.value.uid == admissions.UID


@pytest.mark.parametrize(
    "extra",
    [
        {"userInfo": ...},
        {"userInfo": None},
        {"userInfo": "ada"},
        {"userInfo": {"username": 5, "groups": "all"}},
        {"namespace": None},
        {"namespace": ["x"]},
        {"name": {"a": 1}},
        {"dryRun": "yes"},
        {"options": 5},
        {"subResource": None},
    ],
)
def test_members_that_only_inform_may_be_anything(extra):
    request = parse(changed(**extra))
    assert isinstance(request.username, str)
    assert isinstance(request.name, str)
    assert isinstance(request.namespace, str)
    assert request.dry_run is False


def test_a_request_is_read_as_the_api_server_wrote_it():
    request = parse(changed(dryRun=True, subResource="status"), "validate")
    assert (request.phase, request.uid, request.operation) == ("validate", admissions.UID, "CREATE")
    assert (request.kind, request.group, request.subresource) == ("TrainJob", "trainer.kubeflow.org", "status")
    assert (request.namespace, request.name, request.dry_run) == (jobs.NAMESPACE, "llama", True)
    assert (request.username, list(request.groups)) == ("ada", ["system:authenticated"])
    assert request.document == JOB
    assert request.old is None


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
def test_a_deletion_has_no_object(operation):
    request = parse(changed(operation=operation, object=None, oldObject=copy.deepcopy(JOB)))
    assert (request.document, request.old) == ({}, JOB)


def test_a_huge_string_is_passed_on_as_it_is():
    request = parse(changed(object={**JOB, "huge": "x" * 3_000_000}))
    assert len(request.document["huge"]) == 3_000_000


def test_a_review_goes_back_with_version_kind_and_response():
    assert orjson.loads(reviews.dumps(reviews.allow("u"))) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }
