"""The check itself: each of these breakages of a good document must be found, with its place."""

from __future__ import annotations

import pytest

from tests.packaging import renders

BREAKAGES = {
    "a misspelt field": (lambda each: each["spec"].update(replica=2), "Deployment.spec.replica: no such field"),
    "a text for a number": (lambda each: each["spec"].update(replicas="2"), ".spec.replicas: '2' is not an integer"),
    "a truth value for a number": (lambda each: each["spec"].update(replicas=True), "True is not an integer"),
    "a field that is missing": (lambda each: each["spec"].pop("selector"), "Deployment.spec.selector: missing"),
    "a list for an object": (lambda each: each.update(metadata=[]), "Deployment.metadata: [] is not of type object"),
    "deep inside": (
        lambda each: container(each)["livenessProbe"]["httpGet"].update(sheme="HTTPS"),
        ".containers[0].livenessProbe.httpGet.sheme: no such field",
    ),
    "a number for a text": (lambda each: container(each).update(image=1), ".image: 1 is not of type string"),
    "no quantity": (
        lambda each: container(each)["resources"]["limits"].update(memory=["1Gi"]),
        "limits.memory: ['1Gi'] is nothing of what it may be",
    ),
}


def container(deployment):
    return deployment["spec"]["template"]["spec"]["containers"][0]


@pytest.mark.parametrize(("breakage", "said"), list(BREAKAGES.values()), ids=list(BREAKAGES))
def test_a_broken_document_is_found(helm, kubernetes, breakage, said):
    document = renders.one(helm.template(), "Deployment")
    assert kubernetes.problems(document) == []
    breakage(document)
    assert any(said in problem for problem in kubernetes.problems(document))


def test_kinds_of_others_are_not_known(kubernetes):
    assert not kubernetes.knows({"apiVersion": "cert-manager.io/v1", "kind": "Certificate"})
