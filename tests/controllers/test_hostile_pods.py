"""What the leader knows has a limit in bytes, and the work on one claim does not grow with what does not name it."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.platform import seats as annotations
from muster.webhook.cluster import kinds
from muster.webhook.controllers import caches, lines, views
from tests.controllers.documents import pod

MiB = 1024 * 1024
NOW = datetime.datetime(2026, 11, 23, 12, tzinfo=datetime.UTC)
KINDS = ("Pod", "JobSet", "ResourceClaim", "ResourceClaimTemplate", "Namespace")


def following(room=16 * MiB, told=lambda _before, _after: None):
    return caches.Caches(None, dict.fromkeys(KINDS, told), room=room)


def put(mirror, document):
    mirror.put(document)


def naming(name, claims, namespace="team-a", gates=("muster.dev/seat",)):
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"u-{namespace}-{name}",
        "labels": {"muster.dev/profile": "p"},
    }
    spec = {
        "schedulingGates": [{"name": gate} for gate in gates],
        "resourceClaims": [{"name": claim, "resourceClaimName": claim} for claim in claims],
    }
    return {"metadata": {**metadata, "creationTimestamp": "2026-11-23T11:00:00Z"}, "spec": spec, "status": {}}


def claim(name, seats="{}"):
    metadata = {"name": name, "namespace": "team-a", "uid": f"u-{name}", "resourceVersion": "1"}
    return {"metadata": {**metadata, "annotations": {"muster.dev/seats": seats}}, "status": {}}


@pytest.mark.parametrize(
    "make",
    [
        lambda number: naming(f"p-{number}", ["c"], "evil", [f"gate-{number}-{each}" for each in range(2_000)]),
        lambda number: naming(f"p-{number}", [f"claim-{number}-{each}" for each in range(300)], "evil"),
        lambda number: naming(f"p-{number}-{'x' * 200}", ["c"], "evil"),
    ],
)
def test_pods_of_a_hostile_author_take_no_more_than_their_room_and_push_out_no_others(make):
    told = []
    known = following(4 * MiB, lambda before, after: told.append((before, after)))
    put(known.pods, naming("good", ["c"]))
    for number in range(1_000):
        put(known.pods, make(number))
    put(known.pods, naming("late", ["c"]))
    store = known.pods
    assert store.used <= 4 * MiB * kinds.POD.share
    assert store.left_out
    assert [each.name for each in known.pods.in_namespace("team-a")] == ["good", "late"]
    there = sum(after is not None for _, after in told) - sum(before is not None for before, _ in told)
    assert there == len(store) == len(list(known.pods.all()))


NAMES = st.sampled_from("abc")


@given(st.lists(st.tuples(NAMES, NAMES, st.lists(NAMES, max_size=3), st.booleans()), max_size=30))
def test_pods_are_found_by_the_claims_that_they_name_now(steps):
    known = following()
    for namespace, name, claims, stays in steps:
        document = naming(name, claims, namespace)
        put(known.pods, document) if stays else known.pods.drop(document)
    for namespace in "abc":
        for wanted in "abc":
            named = {each.name for each in known.pods.in_namespace(namespace) if wanted in each.claims}
            assert {each.name for each in known.pods.naming(namespace, wanted)} == named


def test_the_seats_of_a_claim_are_read_once_for_all_pods_that_wait(monkeypatch):
    read, parse = [], lines.parse_seats
    monkeypatch.setattr(lines, "parse_seats", lambda text: read.append(text) or parse(text))
    known = following()
    held = {f"u-{number}": annotations.Seat(f"x-{number}", "", "2026-11-23T11:00:00Z") for number in range(50)}
    for name in "abc":
        put(known.claims, claim(name, annotations.format_seats(held)))
    for number in range(100):
        put(known.pods, naming(f"p-{number}", ["a", "b", "c"]))
    line = lines.look(known, known.claims.look("team-a", "c"), None, NOW)
    assert (line.waiting, len(line.missing)) == ((), 50)
    assert len(read) <= 4
    read.clear()
    holders = lines.Holders(known)
    assert sum(holders.waits(each) for each in known.pods.all()) == 100
    assert len(read) <= 3


def test_pods_that_do_not_name_a_claim_cost_nothing_when_it_is_looked_at(monkeypatch):
    known = following()
    put(known.claims, claim("quiet"))
    put(known.pods, naming("one", ["quiet"]))
    for number in range(500):
        put(known.pods, naming(f"p-{number}", [f"other-{number}"]))
    looked = []
    monkeypatch.setattr(lines, "_is_held_back", lambda each: looked.append(each) or False)
    lines.look(known, known.claims.look("team-a", "quiet"), None, NOW)
    assert [each.name for each in looked] == ["one"]


def test_a_pod_is_seen_as_before_by_its_view():
    known = following()
    put(known.pods, pod("q", gated=False, phase="Failed", uid="u"))
    (seen,) = known.pods.all()
    assert isinstance(seen, views.Pod)
    assert seen.ended
