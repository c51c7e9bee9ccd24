"""The counts of the overview: jobs, not decisions, within a budget, whatever the lines are."""

from __future__ import annotations

import datetime

import orjson
import pytest

from muster.audit import chain, queries
from muster.webhook.pages import scans, tallies
from muster.webhook.pages.shelves import Shelf

ANY = queries.Questions()


@pytest.fixture
def tallied(log, make_record):
    """Write records and count them; each is given by what differs from an admission of the job sft in team-a."""

    def count(*differences, questions=ANY, budget=tallies.BUDGET):
        link = chain.Chain()
        log.write_bytes(b"".join(link.seal(make_record(**{"decision": "allowed", **each})) for each in differences))
        return tallies.tally(Shelf([log]), questions, budget)

    return count


def named(name, namespace="team-a", kind="TrainJob"):
    return {"kind": kind, "namespace": namespace, "name": name}


def on(day):
    return f"2026-03-{day:02d}T10:00:00.000000Z"


def test_a_job_counts_once_however_many_decisions_are_about_it(tallied, make_change):
    patched = {"decision": "patched", "changes": [make_change()]}
    owned = {"owner": {"kind": "TrainJob", "name": "sft", "uid": "u"}, "object": named("sft", kind="JobSet")}
    counted = tallied(patched, patched, {**patched, **owned})
    assert counted.days == {"2026-03-01": {"corrected": 1}}
    assert counted.namespaces == {"team-a": {"corrected": 1}}
    assert (counted.rules, counted.decisions) == ({"trl/launch": 1}, 3)


def test_days_and_namespaces_are_counted_apart(tallied, make_finding):
    warned = {"findings": [make_finding("spec.a", 1)], "phase": "validate"}
    counted = tallied(
        {"time": on(1), "decision": "denied"},
        {"time": on(2), "decision": "denied", "object": named("b", "team-b")},
        {"time": on(2), "object": named("c", "team-b"), **warned},
    )
    assert counted.days == {"2026-03-01": {"refused": 1}, "2026-03-02": {"refused": 1, "warned": 1}}
    assert counted.namespaces == {"team-a": {"refused": 1}, "team-b": {"refused": 1, "warned": 1}}


@pytest.mark.parametrize(
    ("record", "outcomes"),
    [
        ({"decision": "denied"}, {"refused"}),
        ({"decision": "denied", "dryRun": True}, set()),
        ({"decision": "allowed"}, set()),
        ({"decision": "unchanged", "mode": "warn", "changes": ["trl/launch"]}, {"warned"}),
        ({"decision": "patched", "changes": ["core/applied"]}, set()),
        ({"decision": "patched", "changes": ["core/applied", "trl/launch"]}, {"corrected"}),
    ],
)
def test_outcomes_are_what_a_job_met(tallied, make_change, record, outcomes):
    changes = [{**make_change(), "rule": rule} for rule in record.get("changes", ())]
    counted = tallied({**record, "changes": changes})
    assert set(counted.namespaces.get("team-a", ())) == outcomes


def test_filters_choose_what_is_counted_and_not_what_filters_offer(tallied):
    records = [{"decision": "denied", "object": named("a", each)} for each in ("team-a", "team-b", "team-b")]
    counted = tallied(*records, questions=queries.Questions(namespace="team-a"))
    assert set(counted.namespaces) == {"team-a"}
    assert counted.values["namespace"] == ("team-b", "team-a")
    assert counted.values["user"] == ("alice",)


def test_counting_ends_at_the_budget_and_says_so(tallied):
    records = [{"decision": "denied", "object": named(f"a{each}")} for each in range(10)]
    counted = tallied(*records, budget=scans.Budget(lines=4))
    assert (counted.is_whole, counted.decisions) == (False, 4)
    assert tallied(*records).is_whole


def test_values_of_a_hostile_log_are_few_and_short(tallied):
    records = [{"object": named("x" * 10_000), "user": {"username": f"u{each}"}} for each in range(300)]
    counted = tallied(*records)
    assert len(counted.values["user"]) == 100
    assert counted.values["job"] == ()


@pytest.mark.parametrize("member", ["time", "object", "owner", "user", "findings", "changes", "decision", "mode"])
@pytest.mark.parametrize("value", [None, 1, "x", [], {}, [1], {"name": []}, [{"rule": []}]])
def test_any_value_in_any_place_is_counted_or_left_out(log, make_record, member, value):
    good = make_record(decision="denied")
    log.write_bytes(orjson.dumps({**good, member: value}) + b"\n" + orjson.dumps(good) + b"\n[]\n7\nnull\nx\n")
    counted = tallies.tally(Shelf([log]), queries.Questions(since=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)))
    assert 1 <= counted.namespaces["team-a"]["refused"] <= 2


def test_a_tally_is_kept_for_seconds_and_only_a_few_are(log, sealed):
    log.write_bytes(b"".join(sealed(1)))
    now = [0.0]
    kept = tallies.Tallies(Shelf([log]), clock=lambda: now[0])
    first = kept.of({}, ANY)
    assert kept.of({}, ANY) is first
    for each in range(20):
        kept.of({"job": str(each)}, ANY)
    assert kept.of({}, ANY) is not first
    again = kept.of({}, ANY)
    now[0] = 60.0
    assert kept.of({}, ANY) is not again
