"""Reports, written to an API server in memory: by several replicas, paced, and whatever goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools

import pytest

from muster.audit import record_schema
from muster.webhook import configs
from muster.webhook.cluster import writes
from muster.webhook.metrics import Metrics
from muster.webhook.notices import report_objects, report_writers
from muster.webhook.server import recorders
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import waits

OPEN, POLICY = report_objects.FORMATS["openreports"], report_objects.FORMATS["policyreport"]
FAST = report_writers.ReportPace(pause=0, settle=0, quiet=0, first=0.01, longest=0.02)
MISSING = "the server could not find the requested resource"


def job(name="sft", space="team-a"):
    return {"object": {"kind": "TrainJob", "namespace": space, "name": name}}


@pytest.fixture
def corrected(make_record, make_change):
    def make(**fields):
        return make_record(changes=[make_change(after={})], **fields)

    return make


@pytest.fixture
async def reporting():
    """Start replicas that write to one API server."""
    server = ApiServer()
    server.put(namespace())
    async with contextlib.AsyncExitStack() as stack:

        def start(form=OPEN, pace=FAST, limits=None):
            dropped = []
            access = writes.Writes(server.connection())
            made = report_writers.Reports(access, form, dropped.append, limits, pace, clock=lambda: 1772353800.0)
            task = asyncio.create_task(made.run())
            stack.push_async_callback(_ended, task)
            made.server, made.dropped, made.task = server, dropped, task
            return made

        yield start


async def _ended(task):
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def report(made, form=OPEN, space="team-a"):
    return made.server.get(form.kind.served, "muster", space)


def jobs(made, **where):
    found = report(made, **where) or {"results": ()}
    return {each["resources"][0]["name"]: each["result"] for each in found["results"]}


@pytest.mark.parametrize("form", [OPEN, POLICY], ids=["openreports", "policyreport"])
async def test_a_namespace_gets_one_report_of_all_its_jobs(reporting, denied, corrected, form):
    made = reporting(form)
    made.take(denied(**job("refused")))
    made.take(corrected(**job("mended")))
    await waits.until(lambda: jobs(made, form=form) == {"refused": "fail", "mended": "pass"})
    found = report(made, form)
    assert found["kind"] == form.kind.served
    assert found["summary"] == {"pass": 1, "fail": 1, "warn": 0, "error": 0, "skip": 0}
    made.take(denied(**job("another")))
    await waits.until(lambda: report(made, form)["summary"]["fail"] == 2)


async def test_a_writer_of_reports_that_is_cancelled_in_the_moment_of_a_decision_ends(reporting, denied):
    made = reporting(pace=report_writers.ReportPace(pause=0, settle=0, quiet=3600))
    made.take(denied(**job("first")))
    await waits.until(lambda: made._written)
    made.take(denied(**job("second")))
    await waits.turns()  # until it waits for news within the hour
    made.take(denied(**job("third")))
    made.task.cancel()
    await asyncio.wait([made.task], timeout=waits.LIMIT)
    assert made.task.cancelled()


@pytest.mark.parametrize("fields", [{"dryRun": True}, {"operation": "UPDATE"}, {"decision": "skipped"}])
async def test_dry_runs_updates_and_what_is_skipped_are_not_reported(reporting, denied, fields):
    made = reporting()
    made.take(denied(**job("unseen"), **fields))
    made.take(denied(**job("last")))
    await waits.until(lambda: jobs(made))
    assert jobs(made) == {"last": "fail"}


async def test_a_namespace_without_anything_to_say_gets_no_report(reporting, make_record, denied):
    made = reporting()
    made.server.put(namespace("team-b"))
    made.take(make_record(decision="allowed", phase="validate", **job(space="team-b")))
    made.take(denied())
    await waits.until(lambda: jobs(made))
    assert report(made, space="team-b") is None


async def test_what_changes_nothing_is_not_written(reporting, denied, make_record):
    made = reporting()
    made.take(denied())
    await waits.until(lambda: jobs(made))
    made.take(make_record(decision="allowed", phase="validate", **job("other")))
    await asyncio.sleep(0.02)
    assert len(made.server.log) == 1


async def test_a_job_that_was_put_right_leaves_the_report(reporting, denied, make_record):
    made = reporting()
    made.take(denied())
    await waits.until(lambda: jobs(made))
    later = record_schema.timestamp(_moment(1))
    made.take(make_record(decision="allowed", phase="validate", time=later, **job()))
    await waits.until(lambda: not jobs(made))
    assert report(made)["summary"]["fail"] == 0


def _moment(seconds):
    return datetime.datetime(2026, 3, 1, 8, 30, seconds, tzinfo=datetime.UTC)


async def test_two_replicas_lose_nothing_to_each_other(reporting, denied):
    made = [reporting(), reporting()]
    made[0].server.pause = 0.002
    for number, each in zip(range(40), itertools.cycle(made), strict=False):
        each.take(denied(**job(f"job-{number}")))
        await asyncio.sleep(0.001)
    await waits.until(lambda: len(jobs(made[0])) == 40)
    assert made[0].dropped == made[1].dropped == []


async def test_somebody_who_was_faster_is_no_failure(reporting, denied, caplog):
    made = reporting()
    lost = [RefusedError(409, "the object has been modified")] * 3

    def faster(method, plural):
        if (method, plural) == ("POST", "reports") and lost:
            raise lost.pop()

    made.server.faults = faster
    made.take(denied())
    await waits.until(lambda: jobs(made))
    assert caplog.records == []


async def test_a_report_that_somebody_deletes_meanwhile_is_made_anew_and_is_no_failure(reporting, denied, caplog):
    made = reporting()
    made.take(denied(**job("first")))
    await waits.until(lambda: jobs(made))

    def delete(method, plural):
        if (method, plural) == ("PUT", "reports") and report(made):
            made.server.remove("Report", "muster", "team-a")

    made.server.faults = delete
    made.take(denied(**job("second")))
    await waits.until(lambda: jobs(made) == {"second": "fail"})
    assert made.dropped == []
    assert caplog.records == []


async def test_a_new_replica_goes_on_with_the_report_that_there_is(reporting, denied):
    first = reporting()
    first.take(denied(**job("before")))
    await waits.until(lambda: jobs(first))
    await _ended(first.task)
    second = reporting()
    second.take(denied(**job("after")))
    await waits.until(lambda: jobs(second) == {"before": "fail", "after": "fail"})


async def test_the_decisions_of_one_admission_are_one_write(reporting, denied, make_record):
    made = reporting(pace=report_writers.ReportPace(pause=0, settle=0.05, quiet=3600))
    made.take(make_record(decision="unchanged", **job()))
    await asyncio.sleep(0.01)
    made.take(denied(**job()))
    await waits.until(lambda: jobs(made) == {"sft": "fail"})
    assert len(made.server.log) == 1


async def test_what_waits_is_written_when_the_service_ends(reporting, denied):
    made = reporting(pace=report_writers.ReportPace(pause=0, settle=0, quiet=3600))
    made.take(denied(**job("first")))
    await waits.until(lambda: jobs(made))
    made.take(denied(**job("second")))
    await asyncio.sleep(0.01)
    assert len(made.server.log) == 1
    await _ended(made.task)
    assert set(jobs(made)) == {"first", "second"}


async def test_a_burst_is_one_write(reporting, corrected):
    made = reporting(limits=report_objects.Limits(results=50))
    for number in range(2000):
        made.take(corrected(**job(f"job-{number}")))
    await waits.until(lambda: jobs(made))
    assert set(jobs(made)) == {f"job-{number}" for number in range(1950, 2000)}
    assert len(made.server.log) == 1
    assert made.dropped == []


async def test_many_corrections_do_not_push_a_refusal_out(reporting, denied, corrected):
    made = reporting(limits=report_objects.Limits(results=10))
    made.take(denied(**job("refused")))
    for number in range(100):
        made.take(corrected(**job(f"job-{number}")))
    await waits.until(lambda: jobs(made))
    assert jobs(made)["refused"] == "fail"
    assert len(jobs(made)) == 10


async def test_what_finds_no_room_among_all_namespaces_is_dropped_and_counted(reporting, denied):
    made = reporting(pace=report_writers.ReportPace(room=8, pause=0, settle=0, quiet=0))
    for number in range(20):
        made.take(denied(**job(space=f"space-{number}")))
    assert sum(made.dropped) == 12


async def test_a_missing_definition_is_said_once_and_reports_come_when_it_is_installed(reporting, denied, caplog):
    made = reporting()

    def missing(_method, plural):
        if plural == "reports":
            raise RefusedError(404, MISSING)

    made.server.faults = missing
    made.take(denied(**job("early")))
    await waits.until(lambda: made._backoff.failures > 3)
    (told,) = caplog.records
    assert told.advice.startswith("install the CustomResourceDefinition reports.openreports.io: config/crd of")
    made.server.faults = lambda _method, _plural: None
    await waits.until(lambda: jobs(made) == {"early": "fail"})
    assert made.dropped == []


async def test_a_missing_right_is_said_with_the_file_that_gives_it(reporting, denied, caplog):
    made = reporting(POLICY)

    def forbidden(_method, _plural):
        raise RefusedError(403, 'policyreports is forbidden: User "muster" cannot get resource')

    made.server.faults = forbidden
    made.take(denied())
    await waits.until(lambda: made._backoff.failures > 1)
    assert "rbac-policyreports.yaml" in caplog.records[0].advice


async def test_a_namespace_that_is_gone_does_not_hold_up_the_others_and_is_no_reason_to_warn(reporting, denied, caplog):
    made = reporting()
    made.server.put(namespace("ending", deleting=True))
    made.take(denied(**job(space="gone")))
    made.take(denied(**job(space="ending")))
    made.take(denied())
    await waits.until(lambda: jobs(made))
    assert sum(made.dropped) == 2
    assert caplog.records == []


async def test_a_report_that_the_api_server_refuses_is_dropped_and_the_others_are_written(reporting, denied, caplog):
    made = reporting()
    made.server.put(namespace("team-b"))
    refusals = [RefusedError(422, "results[0].result: Unsupported value")]

    def refused(method, plural):
        if (method, plural) == ("POST", "reports") and refusals:
            raise refusals.pop()

    made.server.faults = refused
    made.take(denied(**job(space="team-b")))
    made.take(denied())
    await waits.until(lambda: jobs(made))
    assert made.dropped == [1]
    assert "Unsupported value" in caplog.records[0].problem


async def test_a_report_of_somebody_else_is_left_alone(reporting, denied, caplog):
    made = reporting()
    theirs = {"apiVersion": "openreports.io/v1alpha1", "kind": "Report"}
    made.server.put({**theirs, "metadata": {"name": "muster", "namespace": "team-a"}, "results": []})
    made.take(denied())
    await waits.until(lambda: made.dropped == [1])
    assert "Report team-a/muster is not Muster's" in caplog.records[0].problem
    assert jobs(made) == {}


def test_the_second_call_of_an_admission_does_not_replace_the_first_that_waits(corrected, make_record):
    pending = report_writers.Pending(4, 4)
    pending.add(corrected())
    pending.add(make_record(decision="unchanged"))
    assert [each["decision"] for each in pending.take("team-a")] == ["patched"]


def test_what_is_put_back_does_not_replace_what_came_meanwhile(denied, make_record):
    pending = report_writers.Pending(4, 4)
    pending.add(denied())
    taken = pending.take("team-a")
    pending.add(make_record(decision="allowed", phase="validate"))
    assert pending.put_back(taken) == 0
    assert [each["decision"] for each in pending.take("team-a")] == ["allowed"]
    assert (len(pending), list(pending)) == (0, [])


class Kept:
    """Keeps records, as the audit writer does."""

    def submit(self, _record):
        return True


async def test_events_and_reports_are_written_beside_each_other(denied):
    server, metrics = ApiServer(), Metrics()
    server.put(namespace())
    config = configs.Audit.model_validate({"events": True, "reports": "policyreport"})
    recorder = recorders.AuditRecorder(Kept())
    announcer = recorders.open_announcer(config, recorder, server.connection(), metrics)
    assert recorder.submit(denied(time=record_schema.timestamp(_now())))
    await waits.until(lambda: server.all("Event") and server.all("PolicyReport"))
    await announcer.stop()
    assert b'muster_audit_problems_total{kind="report"} 0.0' in metrics.render()


def _now():
    return datetime.datetime.now(datetime.UTC)


async def test_nothing_is_announced_by_default():
    assert recorders.open_announcer(configs.Audit(), Kept(), None, Metrics()) is None


async def test_reports_need_an_api_server():
    config = configs.Audit.model_validate({"reports": "openreports"})
    with pytest.raises(configs.ConfigError, match=r"audit\.reports: openreports needs cluster\.source: live"):
        recorders.open_announcer(config, Kept(), None, Metrics())
