"""A decision that the cache cannot make costs one fetch per missing document, and no more."""

from __future__ import annotations

import pytest

from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.cluster import readers
from tests.server.conftest import RUNTIME, TRAINJOB
from tests.support import jobs


class Empty:
    """A cache that knows nothing."""

    whole = True

    def get(self, ref):
        raise readers.NotCached(ref)


def fetching(asked, **documents):
    async def fetch(ref):
        asked.append(ref)
        return documents.get(ref.kind)

    return fetch


async def test_each_missing_document_is_fetched_once(serve):
    asked = []
    webhook = await serve(Empty(), fetching(asked, ClusterTrainingRuntime=RUNTIME[0]))
    assert "patch" in await webhook.admit()
    assert sorted(ref.kind for ref in asked) == ["ClusterTrainingRuntime", "Namespace"]


async def test_a_runtime_that_does_not_exist_leaves_the_job_alone_and_validation_says_so(serve):
    webhook = await serve(Empty(), fetching([]))
    assert "patch" not in await webhook.admit()
    response = await webhook.admit("/validate/trainjobs")
    assert "no ClusterTrainingRuntime of this name exists" in response["status"]["message"]


async def unreachable(ref):
    raise readers.ClusterUnavailable("no route")


async def test_an_unreachable_cluster_refuses_a_create_and_says_what_to_do(serve):
    webhook = await serve(Empty(), unreachable)
    response = await webhook.admit()
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "try again" in response["status"]["message"]
    assert b'muster_plugin_failures_total{framework="none"} 1.0' in webhook.metrics.render()


async def test_an_unreachable_cluster_lets_jobs_pass_where_the_platform_says_so(serve):
    for policy in (Policy(on_plugin_failure="allow"), Policy(mode=Mode.WARN)):
        webhook = await serve(Empty(), unreachable, policy)
        assert (await webhook.admit())["allowed"]


async def test_an_update_needs_no_cluster(serve):
    webhook = await serve(Empty(), unreachable)
    for path in ("/mutate/trainjobs", "/validate/trainjobs"):
        assert (await webhook.admit(path, operation="UPDATE", old=TRAINJOB))["allowed"]


async def test_documents_that_never_agree_end_in_an_error_not_in_a_loop(serve):
    asked = []

    class Moving:
        def get(self, ref):
            raise readers.NotCached(readers.Ref(ref.kind, ref.namespace, f"{ref.name}-{len(asked)}"))

    webhook = await serve(Moving(), fetching(asked))
    assert "changed while they were read" in (await webhook.admit())["status"]["message"]
    assert len(asked) < 20


OWNER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "ghost", "controller": True}
GPUS = {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}}


@pytest.mark.parametrize("of_owner", [{"uid": "2"}, {"uid": "1"}])
async def test_an_owner_or_a_snapshot_of_another_uid_is_asked_for_once_and_lets_no_job_in(serve, of_owner):
    """An author can write such an owner, and such a ConfigMap; a failure would let the job in here."""
    asked = []
    ghost = jobs.make_trainjob("ghost", metadata={"uid": "1"})
    frozen = {
        **jobs.make_runtime(),
        "metadata": {"name": "trl-distributed", "ownerReferences": [{**OWNER, "uid": "3"}]},
    }
    fetch = fetching(asked, TrainJob=ghost, RuntimeSnapshot=frozen, ClusterTrainingRuntime=RUNTIME[0])
    jobset = jobs.make_jobset(
        "ghost", metadata={"ownerReferences": [{**OWNER, **of_owner}]}, container={"resources": GPUS}
    )
    webhook = await serve(Empty(), fetch, Policy(on_plugin_failure="allow"))
    response = await webhook.admit("/validate/jobsets", document=jobset)
    assert (response["allowed"], response["status"]["code"]) == (False, 422)
    assert len(asked) == len(set(asked))
