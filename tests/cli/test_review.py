"""`muster review` answers as the webhook does, byte for byte, and what comes out of it trains on both nodes."""

from __future__ import annotations

import base64
import json

import aiohttp
import jsonpatch
import pytest
import yaml

from muster.front.listeners import Listener
from muster.webhook.admission.policies import Policy
from muster.webhook.cli import gathering
from muster.webhook.metrics import Metrics
from muster.webhook.server import handlers
from muster.webhook.server.resolvers import Resolver
from tests.cli import jobs

EXAMPLES = [
    document
    for path in sorted(jobs.EXAMPLES.glob("*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document["kind"] in ("TrainJob", "JobSet")
]
OWNER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "sft", "controller": True}


def review(document, **request):
    group, _, version = document["apiVersion"].partition("/")
    asked = {"uid": "u-1", "operation": "CREATE", "namespace": "team-a", "object": document, "dryRun": True}
    asked["kind"] = {"group": group, "version": version, "kind": document["kind"]}
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked | request}
    return json.dumps(whole).encode()


def response(result):
    return json.loads(result.out)["response"]


def patched(document, answer):
    return jsonpatch.apply_patch(document, json.loads(base64.b64decode(answer["patch"])))


class Recorder:
    def submit(self, _record):
        return True


@pytest.fixture
async def post():
    """Post a body to the four paths of a real listener, over the runtimes that the command line takes."""
    metrics, policy = Metrics(), Policy()
    resolver = Resolver(gathering.gather([], whole=True).reader, None, metrics)
    admission = handlers.Admission(lambda: policy, resolver, Recorder(), metrics, (200, 4.0))

    def serving(phase, kind):
        return lambda request: admission.handle(request, phase, kind)

    served = {path: serving(*what) for path, what in handlers.ADMISSION_PATHS.items()}
    listener = Listener(served, 1024**2, 1.0)
    port = await listener.open("127.0.0.1", 0, None)
    async with aiohttp.ClientSession(headers={"Content-Type": "application/json"}) as http:

        async def send(body, phase, kind):
            async with http.post(f"http://127.0.0.1:{port}/{phase}/{kind.lower()}s", data=body) as answer:
                assert answer.status == 200
                return await answer.read()

        yield send
    await listener.close()


@pytest.mark.parametrize("phase", ["mutate", "validate"])
@pytest.mark.parametrize("document", EXAMPLES, ids=lambda document: next(iter(document["metadata"].values())))
async def test_the_answer_is_that_of_the_server_byte_for_byte(muster, post, document, phase):
    body = review(document)
    result = muster("review", "--phase", phase, stdin=body)
    assert result.out.encode() == await post(body, phase, document["kind"])
    assert result.code == 0


@pytest.mark.parametrize(
    ("document", "request_"),
    [
        (jobs.two_nodes(), {"operation": "UPDATE", "oldObject": jobs.two_nodes()}),
        (jobs.two_nodes(), {"operation": "DELETE", "object": None, "oldObject": jobs.two_nodes()}),
        (jobs.two_nodes(), {"operation": "PATCH"}),
        (jobs.two_nodes(), {"object": None}),
        (jobs.trainjob(command="trl sft"), {}),
        (jobs.jobset("sft", ownerReferences=[{**OWNER, "uid": "u"}]), {}),
        ({**jobs.two_nodes(), "metadata": [1]}, {}),
    ],
    ids=["update", "delete", "unknown operation", "no object", "wrong types", "owner not given", "no metadata"],
)
async def test_what_is_unusual_is_answered_the_same_too(muster, post, document, request_):
    body = review(document, **request_)
    assert muster("review", stdin=body).out.encode() == await post(body, "mutate", document["kind"])


def test_the_patch_makes_trl_sft_span_both_nodes(muster):
    (document,) = yaml.safe_load_all((jobs.EXAMPLES / "01-trl-sft-two-nodes.yaml").read_text())
    answer = response(muster("review", stdin=review(document)))
    stored = patched(document, answer)
    assert (answer["uid"], answer["allowed"], answer["patchType"]) == ("u-1", True, "JSONPatch")
    assert stored["spec"]["trainer"]["command"] == ["torchrun", "-m", "trl.scripts.sft"]


def test_a_denial_is_an_answer_like_any_other(muster):
    result = muster("review", "--phase", "validate", stdin=review(jobs.trainjob(numNodes=0)))
    assert (result.code, response(result)["allowed"]) == (0, False)
    assert "spec.trainer.numNodes" in response(result)["status"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "is not readable JSON"),
        (b"{", "is not readable JSON"),
        (b"[]", "is not an AdmissionReview"),
        (b"\xff", "is not readable JSON"),
        (b'{"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1"}', "request: an object is required"),
    ],
)
def test_what_is_no_review_has_no_answer(muster, body, message):
    result = muster("review", stdin=body)
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("muster: stdin: ")
    assert message in result.err
    assert result.err.count("\n") == 1


def test_a_review_of_another_version_is_answered_and_said_to_be_unreadable(muster):
    body = review(jobs.two_nodes()).replace(b"admission.k8s.io/v1", b"admission.k8s.io/v9")
    result = muster("review", stdin=body)
    assert response(result)["status"]["code"] == 400
    assert (result.code, "is not served" in result.err) == (2, True)


def test_a_body_beyond_the_limit_is_not_parsed(muster, monkeypatch):
    monkeypatch.setattr("muster.webhook.kubeyaml.sources.MAX_BYTES", 1024**2)
    result = muster("review", stdin=b"[" * (1024**2 + 1))
    assert (result.code, result.err) == (2, "muster: stdin: is larger than 1 MiB\n")


def test_named_runtimes_and_a_configuration_count(muster, write):
    config = write("muster.yaml", "mode: audit")
    body = review(jobs.two_nodes())
    assert "patch" not in response(muster("review", "--config", config, stdin=body))
    none = write("none.yaml", jobs.stream(jobs.configmap()))
    assert "patch" not in response(muster("review", "--runtimes", none, stdin=body))
    assert "patch" in response(muster("review", stdin=body))
