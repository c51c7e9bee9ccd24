"""The probe takes the API server's words for what they mean, and says what to do."""

from __future__ import annotations

import pytest

from muster.strategies.documents import names
from tests.doctor import worlds
from tests.doctor.worlds import RefusedError

CALL = 'Post "https://muster.muster-system.svc:443/mutate/trainjobs?timeout=5s": '
FAILED = 'Internal error occurred: failed calling webhook "create.trainjobs.muster.dev": failed to call webhook: '
INSTALL = "install again"
PODS = "check that replicas are ready"

CALLS = {
    f"{CALL}tls: failed to verify certificate: x509: certificate signed by unknown authority": (
        "the certificate was not signed by a CA in caBundle",
        INSTALL,
    ),
    f"{CALL}tls: failed to verify certificate: x509: certificate has expired or is not yet valid: current time": (
        "the certificate has expired, or a clock is wrong",
        INSTALL,
    ),
    f"{CALL}tls: failed to verify certificate: x509: certificate is valid for a.svc, not muster.muster-system.svc": (
        "the certificate is not valid for the name",
        INSTALL,
    ),
    f"{CALL}dial tcp 10.0.0.7:443: connect: connection refused": ("nothing listens at its address", PODS),
    f"{CALL}context deadline exceeded": ("it did not answer in time", PODS),
    f"{CALL}dial tcp 10.0.0.7:443: i/o timeout": ("it did not answer in time", PODS),
    f"{CALL}dial tcp: lookup muster.example.org: no such host": ("its host name is not in DNS", "correct the URL"),
    'no endpoints available for service "muster"': ("its Service has no ready replica", PODS),
    'service "muster" not found': ("its Service does not exist", INSTALL),
    "the server could not find the requested resource": ("it does not serve the path that is called", INSTALL),
    f"{CALL}something new": ("something new", PODS),
}


def refusing(status, message):
    def judge(_job):
        raise RefusedError(status, message)

    return judge


@pytest.mark.parametrize(("words", "cause", "todo"), [(words, *said) for words, said in CALLS.items()])
async def test_a_call_that_fails_is_explained(world, examine, words, cause, todo):
    world.judge = refusing(500, FAILED + words)
    (line,) = await examine("probe")
    assert line.startswith(
        "error probe: the API server cannot call create.trainjobs.muster.dev, so no job can be created"
    )
    assert cause in line.partition("; ")[0]
    assert line.partition("; ")[2].startswith(todo)


async def test_the_end_of_long_words_is_not_lost(world, examine):
    cause = "tls: failed to verify certificate: x509: certificate signed by unknown authority"
    world.judge = refusing(500, f'{FAILED}Post "https://{"m" * 600}.svc:443/mutate/trainjobs?timeout=5s": {cause}')
    assert "was not signed by a CA in caBundle" in (await examine("probe"))[0]


async def test_a_call_to_somebody_elses_webhook_that_fails_is_not_called_musters(world, examine):
    world.judge = refusing(500, 'failed calling webhook "v.example.org": failed to call webhook: connection refused')
    (line,) = await examine("probe")
    assert line.startswith(
        "unknown probe: the webhook v.example.org, which is not of Muster, cannot be called: nothing listens"
    )


@pytest.mark.parametrize(
    "words",
    [
        'admission webhook "policy.example.org" denied the request: no GPUs here',
        "trainjobs.trainer.kubeflow.org is forbidden: exceeded quota: none",
    ],
)
async def test_a_refusal_of_somebody_else_proves_nothing(world, examine, words):
    world.judge = refusing(403, words)
    (line,) = await examine("probe")
    assert line.startswith("unknown probe: the job of the probe was refused, but not by Muster: HTTP 403")
    assert "--probe-namespace" in line


async def test_a_wrong_job_that_is_taken_means_that_muster_was_not_asked(world, examine):
    world.judge = lambda job: job
    (line,) = await examine("probe")
    assert line.startswith("error probe: the API server accepts a job that Muster would refuse")


async def test_a_right_job_that_comes_back_as_it_was_means_that_nobody_corrected_it(world, examine):
    def judge(job):
        return job if not job["metadata"].get("annotations") else worlds.admitted(job)

    world.judge = judge
    first, second = await examine("probe")
    assert first.startswith("error probe: a job of runtime trl-distributed comes back as it was sent")
    assert second.startswith("ok probe: the API server calls Muster")


@pytest.mark.parametrize(
    "quiet",
    [
        lambda w: w.configure("mode: audit"),
        lambda w: w.configure("frameworks: {trl: {mode: audit}}"),
        lambda w: w.objects[f"{worlds.NAMESPACES}/default"]["metadata"]["labels"].update({names.MODE_LABEL: "audit"}),
    ],
    ids=["global", "framework", "namespace"],
)
async def test_where_the_mode_lets_jobs_pass_it_is_no_fault_that_they_do(world, examine, quiet):
    quiet(world)
    world.judge = lambda job: job
    found = await examine("probe")
    assert [line.split()[0] for line in found] == ["ok", "ok"]
    assert all("as expected in mode audit" in line for line in found)


async def test_a_mode_that_is_not_in_force_yet_is_told(world, examine):
    world.configure("mode: off")
    world.judge = lambda job: worlds.admitted({**job, "metadata": {}})
    assert any(line.startswith("warning probe: a job is corrected though the mode") for line in await examine("probe"))


async def test_the_framework_whose_launch_is_replaced_is_chosen_and_another_one_where_it_is_missing(world, examine):
    assert any("runtime trl-distributed" in line for line in await examine("probe"))
    world.objects[worlds.RUNTIMES]["items"] = [worlds.runtime("b", "torch"), worlds.runtime("a", "torch")]
    assert any("runtime a is corrected" in line for line in await examine("probe"))


@pytest.mark.parametrize("items", [[], [worlds.runtime("other", "mpi")], [{"metadata": {"name": "bare"}}]])
async def test_without_a_runtime_nothing_is_proven(world, examine, items):
    world.objects[worlds.RUNTIMES]["items"] = items
    assert (await examine("probe"))[0].startswith("unknown probe: there is no ClusterTrainingRuntime of trl or torch")


async def test_a_namespace_that_is_left_out_or_missing_proves_nothing(world, examine):
    world.objects[f"{worlds.NAMESPACES}/kube-system"] = worlds.namespace("kube-system")
    (line,) = await examine("probe", probe_namespace="kube-system")
    assert line.startswith("unknown probe: mutating entry create.trainjobs.muster.dev excludes namespace kube-system")
    (line,) = await examine("probe", probe_namespace="nowhere")
    assert line.startswith("unknown probe: there is no namespace nowhere")


async def test_jobs_are_suspended_named_apart_and_sent_as_often_as_is_said(world, examine):
    sent = []

    def judge(job):
        sent.append(job)
        return worlds.admitted(job)

    world.judge = judge
    found = await examine("probe", calls=3)
    assert any("median of 3" in line for line in found)
    assert [job["spec"]["suspend"] for job in sent] == [True] * 4
    assert len({job["metadata"]["name"] for job in sent}) == 2
