"""With `checks.dryRun`, a job that Muster lets in is asked for at the API server, whose refusals deny it."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter

import orjson
import pytest

from muster.kube import transports
from muster.webhook.admission.policies import Mode, Policy
from muster.webhook.cluster.memory import InMemoryReader
from muster.webhook.server.pod_admission import DryRuns
from tests.server.conftest import RUNTIME
from tests.support.jobs import make_jobset

POD_SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged'
NO_RIGHT = 'pods is forbidden: User "muster" cannot create resource "pods" in API group "" in the namespace "team-a"'
INVALID = 'Pod "x" is invalid: spec.containers[0].image: Required value'


class ApiServer:
    """Answers creations; `wait` is an event that they wait for."""

    def __init__(self, **refusals):
        self.refusals, self.asked, self.queries, self.wait = refusals, [], [], None

    @contextlib.asynccontextmanager
    async def send(self, method, path, query, patience, body=None, content_type=""):  # noqa: ARG002  # a sender's
        plural = path.rpartition("/")[2]
        self.asked.append((plural, body))
        self.queries.append((method, dict(query)))
        if self.wait is not None:
            await self.wait.wait()
        if plural in self.refusals and isinstance(self.refusals[plural], Exception):
            raise self.refusals[plural]
        yield Answered(*self.refusals.get(plural, (201, "")))


class Answered:
    headers = {}  # noqa: RUF012  # as a response has them

    def __init__(self, status, message):
        self.status, self._message = status, message

    async def chunks(self):
        yield orjson.dumps({"kind": "Status", "message": self._message})


@pytest.fixture
def asked(serve):
    """Start a webhook that asks an API server; `seconds` for each job."""

    async def start(server, policy=None, seconds=2.0, clock=None):
        def asking(metrics):
            clocks = {} if clock is None else {"clock": clock}
            return DryRuns(server, seconds, metrics.dry_ran, **clocks)

        return await serve(InMemoryReader(RUNTIME), None, policy, asking=asking)

    return start


def validated(webhook, **wanted):
    return webhook.admit("/validate/jobsets", **{"document": make_jobset("mine"), **wanted})


def counts(webhook):
    lines = webhook.metrics.render().decode().splitlines()
    found = (line.rpartition(" ") for line in lines if line.startswith("muster_dry_runs_total"))
    return Counter({name.partition('"')[2].rstrip('"}'): int(float(count)) for name, _, count in found})


async def test_a_job_and_a_pod_are_created_as_dry_runs_and_the_job_is_let_in(asked):
    server = ApiServer()
    webhook = await asked(server)
    assert (await validated(webhook))["allowed"]
    assert sorted(plural for plural, _ in server.asked) == ["jobs", "pods"]
    assert server.queries == [("POST", {"dryRun": "All"})] * 2
    assert counts(webhook)["made"] == 2


async def test_a_job_whose_pod_would_be_refused_is_denied_in_the_words_of_the_api_server(asked):
    response = await validated(await asked(ApiServer(pods=(403, POD_SECURITY))))
    assert not response["allowed"]
    assert POD_SECURITY in response["status"]["message"]


async def test_a_trainjob_is_asked_for_as_the_jobset_that_trainer_will_make(asked):
    server = ApiServer(pods=(403, POD_SECURITY))
    response = await (await asked(server)).admit("/validate/trainjobs")
    assert not response["allowed"]
    pods = [body for plural, body in server.asked if plural == "pods"]
    assert any(each["name"] == "MASTER_ADDR" for each in pods[0]["spec"]["containers"][0]["env"])


async def test_the_jobset_of_a_trainjob_is_not_asked_for_again(asked):
    server = ApiServer(pods=(403, POD_SECURITY))
    owner = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "mine", "controller": True}
    webhook = await asked(server)
    webhook.resolver._cluster.add(
        {
            "apiVersion": owner["apiVersion"],
            "kind": "TrainJob",
            "metadata": {"name": "mine", "namespace": "team-a"},
            "spec": {"runtimeRef": {"name": RUNTIME[0]["metadata"]["name"]}},
        },
        "file",
    )
    document = make_jobset("mine", metadata={"ownerReferences": [owner]})
    assert (await validated(webhook, document=document))["allowed"]
    assert server.asked == []


@pytest.mark.parametrize("wanted", [{"operation": "UPDATE", "old": make_jobset("mine")}, {"path": "/mutate/jobsets"}])
async def test_only_creations_are_asked_for_and_only_in_the_validating_phase(asked, wanted):
    server = ApiServer()
    webhook = await asked(server)
    await webhook.admit(wanted.pop("path", "/validate/jobsets"), document=make_jobset("mine"), **wanted)
    assert server.asked == []


async def test_in_mode_warn_it_is_a_warning_and_in_mode_off_nothing_is_asked(asked):
    server = ApiServer(pods=(403, POD_SECURITY))
    response = await validated(await asked(server, Policy(mode=Mode.WARN)))
    assert response["allowed"]
    assert any("violates PodSecurity" in each for each in response["warnings"])
    server.asked.clear()
    await validated(await asked(server, Policy(mode=Mode.OFF)))
    assert server.asked == []


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [((403, NO_RIGHT), "forbidden"), ((500, "etcd"), "failed"), (transports.UnreachableError("no route"), "failed")],
)
async def test_an_api_server_that_cannot_be_asked_refuses_nothing_and_is_left_alone_for_a_while(
    asked, refusal, outcome, caplog
):
    server, now = ApiServer(pods=refusal, jobs=refusal), [100.0]
    webhook = await asked(server, clock=lambda: now[0])
    for _ in range(3):
        assert (await validated(webhook))["allowed"]
    assert counts(webhook)[outcome] == 1
    assert counts(webhook)["paused"] == 5
    assert len([each for each in caplog.records if "dry run was not made" in each.message]) == 1
    now[0] += 31
    server.refusals = {"pods": (403, POD_SECURITY)}
    assert not (await validated(webhook))["allowed"]


async def test_an_api_server_that_is_slow_refuses_nothing(asked):
    server = ApiServer()
    server.wait = asyncio.Event()
    webhook = await asked(server, seconds=0.05)
    assert (await validated(webhook))["allowed"]
    assert counts(webhook)["failed"] >= 1


async def test_answers_that_follow_from_the_pod_alone_are_kept_for_a_while(asked):
    server, now = ApiServer(pods=(422, INVALID)), [100.0]
    webhook = await asked(server, clock=lambda: now[0])
    for _ in range(2):
        assert INVALID in (await validated(webhook))["status"]["message"]
    assert len(server.asked) == 2
    now[0] += 31
    await validated(webhook)
    assert len(server.asked) == 4


async def test_a_refusal_that_depends_on_the_cluster_is_not_kept(asked):
    server = ApiServer(pods=(403, POD_SECURITY))
    webhook = await asked(server)
    assert not (await validated(webhook))["allowed"]
    server.refusals.clear()
    assert (await validated(webhook))["allowed"]


async def test_many_replicated_jobs_are_asked_for_in_part(asked):
    server, jobset = ApiServer(), make_jobset("mine")
    (job,) = jobset["spec"]["replicatedJobs"]
    jobset["spec"]["replicatedJobs"] = [{**job, "name": f"node-{index}"} for index in range(60)]
    await validated(await asked(server), document=jobset)
    assert len(server.asked) == 40
