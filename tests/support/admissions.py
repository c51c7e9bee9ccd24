"""Drives the admission pipeline as the server does: a review's bytes in, a decision and a response out."""

from __future__ import annotations

import base64
import copy

import jsonpatch
import orjson

from muster.strategies.frameworks import builtin
from muster.strategies.frameworks.default.default_strategy import DefaultStrategy
from muster.strategies.plugins.registry import Registry
from muster.webhook.admission import answers, decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader
from tests.support import jobs

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
GROUPS = {
    "TrainJob": {"group": "trainer.kubeflow.org", "version": "v1alpha1"},
    "JobSet": {"group": "jobset.x-k8s.io", "version": "v1alpha2"},
    "OptimizationJob": {"group": "trainer.kubeflow.org", "version": "v1alpha1"},
}
POLICY = Policy(registry=builtin.load(plugins=False))


def make_review(document, operation="CREATE", old=None, *, kind=None, **request):
    """An AdmissionReview as the API server sends it; further keywords are members of its request."""
    kind = kind or document["kind"]
    plural = f"{kind.lower()}s"
    gvk = {**GROUPS.get(kind, {"group": "", "version": "v1"}), "kind": kind}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": UID,
            "kind": gvk,
            "resource": {"group": gvk["group"], "version": gvk["version"], "resource": plural},
            "operation": operation,
            "namespace": jobs.NAMESPACE,
            "name": "" if "name" in request else document["metadata"].get("name", ""),
            "userInfo": {"username": "ada", "groups": ["system:authenticated"]},
            "object": document,
            "oldObject": old,
            "dryRun": False,
            **request,
        },
    }


def make_reader(*documents):
    """A cluster of these documents."""
    return InMemoryReader(documents, default_namespace=jobs.NAMESPACE)


def shipped_reader(*documents):
    """A cluster with the runtimes that Muster ships, and these documents."""
    return make_reader(*jobs.shipped_runtimes().values(), *documents)


def decide(document, *cluster, phase="mutate", policy=POLICY, reader=None, **review):
    """Evaluate one request; the cluster is that of these documents, or else `reader`."""
    body = orjson.dumps(make_review(document, **review))
    return decisions.evaluate(reviews.parse(body, phase), reader or make_reader(*cluster), policy)


def respond(document, *cluster, **how):
    """As `decide`, but return the answer: the AdmissionReview, parsed from its bytes."""
    return orjson.loads(reviews.dumps(answers.answer(decide(document, *cluster, **how))))["response"]


def patch_of(response):
    """The JSON Patch of a response, [] when it has none."""
    return orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else []


def patched(document, response):
    """The document that the API server would make from this response."""
    return jsonpatch.apply_patch(copy.deepcopy(document), patch_of(response))


def policy_with(*plugins, origin="muster-strategy-test 1.0", **more):
    """A policy whose registry holds only these strategies, as if a package had brought them."""
    registry = Registry(DefaultStrategy())
    for plugin in plugins:
        registry.register(plugin, origin)
    return Policy(registry=registry, **more)
