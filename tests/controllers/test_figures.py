from __future__ import annotations

from msgspec import structs

from muster.strategies.platform.seats import Seat
from muster.webhook.cluster import kinds, leases
from muster.webhook.controllers import caches, controller_service
from tests.controllers.apiservers import RefusedError
from tests.controllers.documents import SHARED, jobset, namespace, pod

CLAIM = "muster-sampler-0"
NOW = "2026-11-21T12:00:00Z"


async def tells(cluster, leader, **figures):
    """Wait for figures of all kinds at once: they come from watches, of which none keeps pace with another."""
    await cluster.until(lambda: {name: leader.figure(name) for name in figures} == figures)


def refuse_gates(method, plural):
    if (method, plural) == ("PATCH", "pods"):
        raise RefusedError(500, "not now")


async def test_the_leader_tells_seats_by_profile_and_others_tell_nothing(cluster):
    terms = leases.Terms(duration=60, deadline=40, retry=0.05)
    one, two = cluster.start(terms=terms), cluster.start(terms=terms)
    for name in "abc":
        cluster.server.put(jobset(name, (CLAIM, 1)))
        cluster.server.put(pod(f"{name}-0", CLAIM, job=name))
    await cluster.until(lambda: len(cluster.open()) == 2)
    leader, other = (one, two) if one.leading else (two, one)
    await tells(cluster, leader, taken={"sampler": 2}, limit={"sampler": 4}, waiting={"sampler": 1})
    assert leader.leads() == {"muster-controllers": 1.0}
    assert other.figure("taken") == {}
    assert other.leads() == {"muster-controllers": 0.0}


async def test_the_leader_tells_what_its_caches_hold_and_others_tell_nothing(cluster):
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    leader, other = cluster.start(), controller_service.Controllers(None, dict)
    await cluster.until(lambda: leader.held("entries").get("Pod") == 1)
    assert 0 < leader.held("bytes")["Pod"] < leader.held("limit_bytes")["Pod"] == caches.ROOM * kinds.POD.share
    assert leader.held("left_out") == dict.fromkeys(leader.held("bytes"), 0)
    assert other.held("bytes") == {}


async def test_a_pod_that_has_its_seat_waits_no_longer_though_its_gate_is_still_there(cluster):
    cluster.server.faults = refuse_gates
    leader = cluster.start()
    for name in "abc":
        cluster.server.put(jobset(name, (CLAIM, 1)))
        cluster.server.put(pod(f"{name}-0", CLAIM, job=name))
    await tells(cluster, leader, taken={"sampler": 2}, waiting={"sampler": 1})
    assert cluster.open() == []


async def test_a_pod_waits_until_it_has_all_of_its_seats(cluster):
    cluster.profiles["judge"] = structs.replace(SHARED, name="judge", claims=1)
    cluster.server.put(namespace("team-a", annotations={"muster.dev/profiles": "sampler,judge"}))
    leader = cluster.start()
    await cluster.until(lambda: cluster.seats("muster-judge-0") is not None and cluster.seats(CLAIM) is not None)
    cluster.take(CLAIM, {f"other-{i}": Seat(f"o-{i}", "", NOW) for i in range(2)})
    for i in range(2):
        cluster.server.put(pod(f"o-{i}", CLAIM, gated=False, uid=f"other-{i}"))
    cluster.server.put(pod("both", "muster-judge-0", CLAIM))
    await tells(cluster, leader, taken={"sampler": 2, "judge": 1}, waiting={"sampler": 1, "judge": 0})
    assert cluster.seats("muster-judge-0") == ["both"]


async def test_a_gated_pod_that_is_on_its_way_out_waits_for_nothing(cluster):
    leader = cluster.start()
    cluster.server.put(jobset("a", (CLAIM, 1)))
    cluster.server.put(pod("a-0", CLAIM, job="a", deletionTimestamp=NOW))
    cluster.server.put(pod("b-0", "muster-sampler-7"))
    await tells(cluster, leader, waiting={"sampler": 1})
    await cluster.quiet()
    assert leader.figure("waiting") == {"sampler": 1}


async def test_when_the_leader_dies_another_goes_on(cluster):
    terms = leases.Terms(duration=1, deadline=0.5, retry=0.05)
    everyone = [cluster.start(terms=terms) for _ in range(3)]
    await cluster.until(lambda: any(each.leading for each in everyone))
    (leader,) = [each for each in everyone if each.leading]
    leader.connection.cut = True
    cluster.server.put(jobset("a", (CLAIM, 1)))
    cluster.server.put(pod("a-0", CLAIM, job="a"))
    await cluster.until(lambda: cluster.open() == ["a-0"])
    assert not leader.leading
    await cluster.until(lambda: sum(each.leading for each in everyone) == 1)


async def test_in_named_namespaces_alone_seats_are_given_and_objects_followed(cluster):
    for space in ("team-b", "team-c"):
        cluster.server.put(namespace(space))
    leader = cluster.start(namespaces=("team-a", "team-b"))
    for space in ("team-a", "team-b", "team-c"):
        cluster.server.put(jobset("a", (CLAIM, 1), space=space))
        cluster.server.put(pod("a-0", CLAIM, job="a", space=space))
    await cluster.until(lambda: cluster.open("team-a") == cluster.open("team-b") == ["a-0"])
    await tells(cluster, leader, taken={"sampler": 2}, limit={"sampler": 8})
    await cluster.quiet()
    assert cluster.open("team-c") == []
    assert {space for _, _, space, _ in cluster.server.log} <= {"team-a", "team-b"}
    assert {plural for plural, space in cluster.server.followed if not space} == {"namespaces"}
    assert leader.held("limit_bytes")["Pod"] == caches.ROOM * kinds.POD.share
