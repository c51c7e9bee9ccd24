"""What the four admission paths answer."""

from __future__ import annotations

import base64

import orjson

from muster.audit import record_schema
from muster.webhook.admission import answers, decisions, reviews
from muster.webhook.admission.policies import Policy
from muster.webhook.cluster.memory import InMemoryReader
from tests.server.conftest import RUNTIME, TRAINJOB, review
from tests.support import admissions, plugins, searches

SEALED = {"seq": 1, "prev": "0" * 64, "hash": "0" * 64}


def operations(response):
    return orjson.loads(base64.b64decode(response["patch"]))


async def test_a_two_node_trl_job_is_patched_to_torchrun(serve):
    webhook = await serve()
    response = await webhook.admit()
    assert response["allowed"]
    assert operations(response)[0] == {
        "op": "replace",
        "path": "/spec/trainer/command",
        "value": ["torchrun", "-m", "trl.scripts.sft"],
    }


async def test_the_server_answers_the_very_bytes_that_the_pipeline_makes(serve):
    webhook = await serve()
    body = orjson.dumps(review())
    decision = decisions.evaluate(reviews.parse(body, "mutate"), InMemoryReader(RUNTIME), Policy())
    status, answered = await webhook.post("/mutate/trainjobs", body)
    assert (status, answered) == (200, reviews.dumps(answers.answer(decision)))


async def test_every_decision_leaves_one_record_of_the_published_shape(serve):
    webhook = await serve()
    await webhook.admit()
    await webhook.admit("/validate/trainjobs", dryRun=True)
    first, second = webhook.records.kept
    assert (first["decision"], first["changes"][0]["field"]) == ("patched", "spec.trainer.command")
    assert (second["decision"], second["phase"], second["dryRun"]) == ("allowed", "validate", True)
    assert [record_schema.misfit(record | SEALED) for record in (first, second)] == [None, None]


async def test_a_bad_job_is_denied_with_every_error_and_its_cause(serve):
    webhook = await serve()
    trainer = TRAINJOB["spec"]["trainer"] | {"numNodes": 0, "args": ["--bf16", "true", "--fp16", "--lerning_rate", "1"]}
    bad = TRAINJOB | {"spec": TRAINJOB["spec"] | {"trainer": trainer}}
    response = await webhook.admit("/validate/trainjobs", document=bad)
    fields = {cause["field"] for cause in response["status"]["details"]["causes"]}
    assert not response["allowed"]
    assert response["status"]["code"] == 422
    assert {"spec.trainer.numNodes", "spec.trainer.args[2]", "spec.trainer.args[3]"} <= fields


async def test_a_review_of_another_kind_than_the_path_is_refused_by_a_review(serve):
    webhook = await serve()
    response = await webhook.admit("/mutate/jobsets")
    assert not response["allowed"]
    assert "TrainJob is not served on this path" in response["status"]["message"]


async def test_metrics_count_decisions_without_names_of_people_or_jobs(serve):
    webhook = await serve()
    await webhook.admit(userInfo={"username": "ada@example.org"})
    text = webhook.metrics.render().decode()
    line = 'muster_admission_requests_total{decision="patched",mode="enforce",operation="CREATE",phase="mutate"'
    assert f'{line},resource="trainjobs"}} 1.0' in text
    assert "team-a" not in text
    assert "example.org" not in text


async def test_a_strategy_that_fails_is_counted_by_its_framework_and_one_that_works_is_not(serve):
    def fails(*_asked):
        raise KeyError("a defect")

    webhook = await serve(policy=admissions.policy_with(plugins.make_strategy("trl", enforce_command=fails)))
    await webhook.admit()
    assert b'muster_plugin_failures_total{framework="trl"} 1.0' in webhook.metrics.render()
    sound = await serve()
    await sound.admit()
    assert b"muster_plugin_failures_total{" not in sound.metrics.render()


async def test_a_create_is_refused_when_it_must_be_recorded_and_cannot(serve):
    webhook = await serve()
    webhook.records.full = True
    assert (await webhook.admit())["status"]["code"] == 503
    assert (await webhook.admit(operation="UPDATE", old=TRAINJOB))["allowed"]


async def test_an_operation_that_is_not_ours_passes_and_leaves_no_record(serve):
    webhook = await serve()
    assert (await webhook.admit(operation="DELETE", old=TRAINJOB))["allowed"]
    assert webhook.records.kept == []


async def test_an_optimization_job_is_judged_on_a_path_of_its_own_and_counted(serve):
    webhook = await serve()
    search = searches.make("--bogus=1") | {"metadata": {"name": "tune", "namespace": "team-a"}}
    response = await webhook.admit("/validate/optimizationjobs", document=search)
    (cause,) = response["status"]["details"]["causes"]
    assert (response["allowed"], cause["field"]) == (False, "spec.trainJobTemplate.spec.trainer.args[4]")
    (record,) = webhook.records.kept
    assert (record["object"]["kind"], record["decision"], record["framework"]) == ("OptimizationJob", "denied", "trl")
    assert 'resource="optimizationjobs"} 1.0' in webhook.metrics.render().decode()
