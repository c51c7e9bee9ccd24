"""Engines that find their profile full take the next one that the operator allows, and stay where they have seats."""

from __future__ import annotations

import asyncio
import json

import pytest

from muster.sessions.platforms.manifests import SEATED
from tests.sessions.platforms.test_pods import NAME, cluster, pair, until, up

__all__ = ["cluster", "pair"]  # fixtures

SEVERAL = {"profile": "seat", "spill": ("spare", "last")}
ALL = frozenset({"seat", "spare", "last"})


def claims(cluster):
    """The claims that the pods name."""
    return {
        each["resourceClaimName"] for pod in cluster.pods.values() for each in pod.document["spec"]["resourceClaims"]
    }


def uid(cluster):
    return cluster.objects["jobsets", NAME]["metadata"]["uid"]


async def waiting(cluster, pods):
    await until(lambda: {pods.trainer.absence, pods.sampler.absence} == {"seat"})


async def looked(cluster):
    """Wait until the Gateway has looked at all and is about to look again."""
    for _ in range(2):
        cluster.asked.clear()
        await cluster._told()
        await until(lambda: ("GET", "pods") in cluster.asked)


@pytest.mark.parametrize(
    ("full", "claim"),
    [((), "muster-seat-0"), (("seat",), "muster-spare-0"), (("seat", "spare"), "muster-last-0")],
)
async def test_both_engines_have_seats_on_one_claim_of_the_first_profile_that_has_some(cluster, pair, full, claim):
    cluster.full = frozenset(full)
    await up(await started(pair(**SEVERAL)))
    assert claims(cluster) == {claim}


async def started(pods):
    await pods.start()
    return pods


async def test_who_finds_all_full_waits_in_the_first_is_told_so_and_goes_where_seats_come_first(cluster, pair):
    cluster.full = ALL
    pods = await started(pair(**SEVERAL))
    await until(lambda: "profiles" in pods.trainer.waits_for)
    assert pods.trainer.waits_for.endswith("; profiles without enough free seats: seat, spare, last")
    assert claims(cluster) == {"muster-seat-0"}
    await cluster.free("spare")
    await up(pods)
    assert claims(cluster) == {"muster-spare-0"}
    assert pods.sampler.waits_for == ""


async def test_who_waits_has_the_seats_that_its_own_profile_gets(cluster, pair):
    cluster.full = ALL
    pods = await started(pair(**SEVERAL))
    await waiting(cluster, pods)
    before = uid(cluster)
    await cluster.free("seat")
    await up(pods)
    assert (claims(cluster), uid(cluster)) == ({"muster-seat-0"}, before)


async def test_engines_that_had_seats_stay_with_their_profile_whatever_is_free_and_whoever_looks(cluster, pair):
    cluster.full = frozenset({"seat"})
    first, second = pair(**SEVERAL), pair(**SEVERAL)
    await up(await started(first))
    before = uid(cluster)
    await until(lambda: SEATED in cluster.objects["jobsets", NAME]["metadata"]["annotations"])
    first._task.cancel()  # as if it were killed
    await started(second)
    await up(second)
    cluster.full = frozenset({"spare"})
    for name in list(cluster.pods):  # as when their node is drained
        await cluster.remove(name)
    await waiting(cluster, second)
    cluster.tried.clear()
    await looked(cluster)
    assert (claims(cluster), uid(cluster), cluster.tried) == ({"muster-spare-0"}, before, [])
    assert "profiles" not in second.trainer.waits_for
    await cluster.free("spare")
    await up(second)
    assert uid(cluster) == before


async def test_who_waits_only_until_its_seats_are_given_is_not_sent_elsewhere(cluster, pair):
    cluster.full = ALL
    pods = await started(pair(**SEVERAL))
    await until(lambda: "profiles" in pods.trainer.waits_for)
    before = uid(cluster)
    cluster.full = frozenset()  # and nobody has given them yet
    await cluster._told()
    await until(lambda: "profiles" not in pods.trainer.waits_for)
    await looked(cluster)
    assert (uid(cluster), pods.trainer.absence) == (before, "seat")


@pytest.mark.parametrize("readable", [True, False])
async def test_who_got_seats_while_it_was_asked_elsewhere_keeps_them(cluster, pair, readable):
    cluster.full = ALL
    pods = await started(pair(**SEVERAL))
    await waiting(cluster, pods)
    before = uid(cluster)
    seats = {f"uid-of-{name}": {"pod": name, "job": NAME, "since": "now"} for name in cluster.pods}
    annotations = {"muster.dev/seats": json.dumps(seats)}
    cluster.objects["resourceclaims", "muster-seat-0"] = {
        "metadata": {"name": "muster-seat-0", "uid": "c", "annotations": annotations}
    }
    if not readable:
        cluster.denied["GET", "resourceclaims"] = (403, "may not get resourceclaims")
    cluster.full = frozenset({"seat"})  # of them
    await looked(cluster)
    assert uid(cluster) == before
    await cluster.free("seat")
    await up(pods)
    assert (claims(cluster), uid(cluster)) == ({"muster-seat-0"}, before)


async def test_where_one_profile_is_allowed_nobody_is_asked_and_engines_wait(cluster, pair):
    cluster.full = frozenset({"seat"})
    pods = await started(pair(profile="seat"))
    await waiting(cluster, pods)
    await looked(cluster)
    await cluster.free("seat")
    await up(pods)
    assert cluster.tried == []
    assert SEATED not in cluster.objects["jobsets", NAME]["metadata"]["annotations"]


async def test_a_profile_that_refuses_is_passed_over_and_the_operator_is_told_once(cluster, pair, caplog):
    cluster.full = ALL
    cluster.strict = frozenset({"seat"})
    pods = await started(pair(profile="seat", spill=("unknown", "spare")))
    await until(lambda: "profiles" in pods.trainer.waits_for)
    assert pods.trainer.waits_for.endswith("; profiles without enough free seats: seat, spare")
    assert claims(cluster) == {"muster-spare-0"}  # the first in which one may wait
    assert caplog.text.count("profile unknown is passed over: the platform has no profile of this name") == 1
    await cluster.free("seat")
    await up(pods)
    assert claims(cluster) == {"muster-seat-0"}


async def test_where_all_profiles_refuse_that_of_the_first_is_told(cluster, pair):
    cluster.full = cluster.strict = ALL
    pods = await started(pair(**SEVERAL))
    async with asyncio.timeout(60):
        await pods.trainer.refused.wait()
    assert "the job needs 2 free seats, and no claim of profile seat has that many" in pods.trainer.refusal
