from __future__ import annotations

from tests.controllers.documents import jobset, pod
from webhook.controllers import leases

CLAIM = "muster-sampler-0"


async def test_the_leader_tells_seats_by_profile_and_others_tell_nothing(cluster):
    terms = leases.Terms(duration=1, deadline=0.5, retry=0.05)
    one, two = cluster.start(terms=terms), cluster.start(terms=terms)
    for name in "abc":
        cluster.server.put(jobset(name, (CLAIM, 1)))
        cluster.server.put(pod(f"{name}-0", CLAIM, job=name))
    await cluster.until(lambda: len(cluster.open()) == 2)
    leader, other = (one, two) if one.leading else (two, one)
    await cluster.until(lambda: leader.figure("taken") == {"sampler": 2})
    assert leader.figure("limit") == {"sampler": 4}
    assert leader.figure("waiting") == {"sampler": 1}
    assert leader.leads() == {"muster-controllers": 1.0}
    assert other.figure("taken") == {}
    assert other.leads() == {"muster-controllers": 0.0}


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
    assert sum(each.leading for each in everyone) == 1
