"""Events on denials, written to an API server in memory."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from muster.webhook import configs
from muster.webhook.cluster import writes
from muster.webhook.metrics import Metrics
from muster.webhook.notices import denials
from muster.webhook.server import recorders
from tests.controllers.apiservers import ApiServer, RefusedError
from tests.controllers.documents import namespace
from tests.support import waits

FAST = denials.EventPace(room=8, pause=0, quiet=0)


@pytest.fixture
async def written():
    """Have denials written, and return the Events that there are then, and how many were dropped."""
    server, dropped = ApiServer(), []
    server.put(namespace())
    async with contextlib.AsyncExitStack() as stack:

        def start(pace=FAST, clock=None):
            access = writes.Writes(server.connection())
            more = {"clock": clock} if clock else {}
            made = denials.Denials(access, dropped.append, pace, **more)
            task = asyncio.create_task(made.run())
            stack.callback(task.cancel)
            made.server, made.dropped, made.task = server, dropped, task
            return made

        yield start


def events(made):
    return made.server.all("Event")


async def test_a_denied_job_gets_an_event_that_says_why(written, denied):
    made = written()
    made.take(denied())
    await waits.until(lambda: events(made))
    (event,) = events(made)
    assert event["involvedObject"] == {
        "apiVersion": "trainer.kubeflow.org/v1alpha1",
        "kind": "TrainJob",
        "namespace": "team-a",
        "name": "sft",
    }
    assert (event["type"], event["reason"], event["count"]) == ("Warning", "MusterDenied", 1)
    assert event["message"] == "refused for alice: spec.trainer.numNodes: must be 1 or more (trl/env)"
    assert event["reportingComponent"] == "muster.dev/admission"


@pytest.mark.parametrize(
    "fields",
    [
        {"dryRun": True},
        {"operation": "UPDATE"},
        {"decision": "allowed"},
        {"decision": "error"},
        {"decision": "patched"},
    ],
)
async def test_what_is_no_denial_of_a_new_job_gets_none(written, denied, fields):
    made = written()
    made.take(denied(**fields))
    made.take(denied(object={"kind": "TrainJob", "namespace": "team-a", "name": "last"}))
    await waits.until(lambda: events(made))
    assert [each["involvedObject"]["name"] for each in events(made)] == ["last"]


async def test_the_same_denial_again_is_counted_and_not_repeated(written, denied):
    made = written()
    for count in (1, 2, 3):
        made.take(denied())
        await waits.until(lambda: [each["count"] for each in events(made)] == [count])  # noqa: B023  # awaited at once


async def test_denials_that_come_while_others_are_written_are_counted_together(written, denied):
    made = written()
    for _ in range(100):
        made.take(denied())
    await waits.until(lambda: events(made))
    assert [each["count"] for each in events(made)] == [100]
    assert len(made.server.log) == 1


async def test_an_event_is_not_written_again_before_its_pause_is_over(written, denied):
    now = [0.0]
    made = written(denials.EventPace(pause=0, quiet=0.05), clock=lambda: now[0])
    made.take(denied())
    await waits.until(lambda: events(made))
    made.take(denied())
    made.take(denied("another reason"))
    await waits.until(lambda: len(events(made)) == 2)
    assert sorted(each["count"] for each in events(made)) == [1, 1]
    now[0] = 1.0
    await waits.until(lambda: sorted(each["count"] for each in events(made)) == [1, 2])


async def test_a_writer_of_events_that_is_cancelled_in_the_moment_of_a_denial_ends(written, denied):
    made = written(denials.EventPace(pause=0, quiet=3600))
    made.take(denied())
    await waits.until(lambda: made._written)
    made.take(denied())
    await waits.turns()  # until it waits for news within the hour
    made.take(denied("another reason"))
    made.task.cancel()
    await asyncio.wait([made.task], timeout=waits.LIMIT)
    assert made.task.cancelled()


async def test_another_reason_or_job_is_another_event(written, denied):
    made = written()
    made.take(denied())
    made.take(denied("must be a number"))
    made.take(denied(object={"kind": "JobSet", "namespace": "team-a", "name": "", "generateName": "Sweep_"}))
    await waits.until(lambda: len(events(made)) == 3)
    assert {each["involvedObject"]["name"] for each in events(made)} == {"sft", "Sweep_*"}
    assert all(each["metadata"]["name"].split(".")[0] in ("sft", "sweep") for each in events(made))


async def test_an_event_that_the_api_server_deleted_is_made_anew(written, denied):
    made = written()
    made.take(denied())
    await waits.until(lambda: events(made))
    made.server.remove("Event", events(made)[0]["metadata"]["name"], "team-a")
    made.take(denied())
    await waits.until(lambda: events(made))
    assert events(made)[0]["count"] == 1


async def test_many_findings_make_one_message_that_fits(written, denied, make_finding):
    made = written()
    found = [{**make_finding(f"spec.field{number}", 1, "x" * 500), "severity": "error"} for number in range(9)]
    made.take(denied(findings=[make_finding("spec.warned", 1), *found]))
    await waits.until(lambda: events(made))
    message = events(made)[0]["message"]
    assert len(message) <= 1024
    assert message.startswith("refused for alice: spec.field0: ")


@pytest.mark.parametrize(("count", "end"), [(3, "spec.f2: is wrong (r)"), (4, "; and 1 more")])
async def test_findings_that_are_not_shown_are_counted(written, denied, make_finding, count, end):
    made = written()
    found = [make_finding(f"spec.f{number}", 1, "is wrong") for number in range(count)]
    made.take(denied(findings=[{**each, "severity": "error", "rule": "r"} for each in found]))
    await waits.until(lambda: events(made))
    assert events(made)[0]["message"].endswith(end)


async def test_more_than_there_is_room_for_is_dropped_and_counted(written, denied):
    made = written(denials.EventPace(room=8, pause=0, quiet=0))
    for number in range(20):
        made.take(denied(object={"kind": "TrainJob", "namespace": "team-a", "name": f"job-{number}"}))
    await waits.until(lambda: len(events(made)) == 8)
    assert sum(made.dropped) == 12


async def test_an_event_that_cannot_be_written_is_dropped_and_the_next_one_is_written(written, denied, caplog):
    made = written()

    def forbidden(_method, _plural):
        raise RefusedError(403, 'events is forbidden: User "muster" cannot create resource "events"')

    made.server.faults = forbidden
    for _ in range(3):
        made.take(denied())
    await waits.until(lambda: sum(made.dropped) == 3)
    assert "cannot create resource" in caplog.records[0].problem
    made.server.faults = lambda _method, _plural: None
    made.take(denied())
    await waits.until(lambda: events(made))
    assert events(made)[0]["count"] == 1


async def test_a_namespace_that_is_gone_is_no_reason_to_warn_and_hides_none(written, denied, caplog):
    made = written()
    made.server.put(namespace("ending", deleting=True))
    for space in ("gone", "ending"):
        made.take(denied(object={"kind": "TrainJob", "namespace": space, "name": "sft"}))
    await waits.until(lambda: sum(made.dropped) == 2)
    assert caplog.records == []

    def forbidden(_method, _plural):
        raise RefusedError(403, 'events is forbidden: User "muster" cannot create resource "events"')

    made.server.faults = forbidden
    made.take(denied())
    await waits.until(lambda: sum(made.dropped) == 3)
    assert len(caplog.records) == 1


async def test_replicas_count_in_events_of_their_own(written, denied):
    one = written()
    other = written()
    one.take(denied())
    other.take(denied())
    await waits.until(lambda: len(events(one)) == 2)
    one.take(denied())
    await waits.until(lambda: sorted(each["count"] for each in events(one)) == [1, 2])


class Kept:
    """Keeps records, as the audit writer does."""

    def __init__(self):
        self.records = []

    def submit(self, record):
        self.records.append(record)
        return len(self.records) > 1


async def test_a_denial_is_recorded_first_of_all_and_announced_beside(denied):
    server, kept, metrics = ApiServer(), Kept(), Metrics()
    recorder = recorders.AuditRecorder(kept)
    announcer = recorders.open_announcer(configs.Audit(events=True), recorder, server.connection(), metrics)
    assert (recorder.submit(denied()), recorder.submit(denied())) == (False, True)
    assert len(kept.records) == 2
    await waits.until(lambda: b'muster_audit_problems_total{kind="event"} 2.0' in metrics.render())  # no such namespace
    await announcer.stop()


async def test_events_need_an_api_server(denied):
    with pytest.raises(configs.ConfigError, match=r"audit\.events: true needs cluster\.source: live"):
        recorders.open_announcer(configs.Audit(events=True), Kept(), None, Metrics())
