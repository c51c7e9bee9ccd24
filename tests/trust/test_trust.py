"""Shared certificates, replica by replica: who writes what, and what holds when things go wrong."""

from __future__ import annotations

import asyncio
import base64

import pytest

from muster.certs import authorities, errors, leaves, materials, pems
from muster.kube import transports
from muster.webhook.trust import secrets, trust_leader
from tests.controllers.apiservers import RefusedError
from tests.trust.conftest import KINDS, LEAF, RULES, SERVICE, World


@pytest.fixture
def away():
    """What an API server does that is away."""

    def refuse(_method, _plural):
        raise RefusedError(503, "away")

    return refuse


def text(secret):
    return base64.b64decode(secret["data"][secrets.KEY])


def trusts(world, replica):
    return [world.accepts(replica, bundle) for bundle in world.bundles()]


async def test_the_first_replica_makes_the_secret_and_the_next_takes_the_same_authority(world):
    one, two = world.replica(), world.replica()
    await one.look()
    made = text(world.secret())
    await two.look()

    assert text(world.secret()) == made
    assert one.serving.authority_pem == two.serving.authority_pem
    assert one.serving.fingerprint != two.serving.fingerprint, "each has a leaf of its own"
    assert one.serving.key_pem not in made


async def test_replicas_that_come_first_at_once_end_up_with_the_same_authorities(world):
    replicas = [world.replica() for _ in range(5)]
    await asyncio.gather(*(each.look() for each in replicas))
    for each in replicas:
        await each.look()

    assert len({each.keeper.ring.fingerprints for each in replicas}) == 1
    assert len(replicas[0].keeper.ring.members) == 1
    await replicas[0].lead()
    assert all(all(trusts(world, each)) for each in replicas)


async def test_the_leader_writes_every_bundle_and_then_leaves_them_alone(world):
    one = world.replica()
    await one.lead()

    assert world.bundles() == [one.serving.authority_pem] * 4
    writes = len(world.server.log)
    await one.lead()
    assert len(world.server.log) == writes


async def test_a_replica_says_that_nobody_trusts_it_until_the_leader_has_written(world):
    one, two = world.replica(), world.replica()
    assert "have not been read" in one.keeper.problem()
    await one.look()
    assert "MutatingWebhookConfiguration muster, ValidatingWebhookConfiguration muster" in one.keeper.problem()
    await two.lead()
    await one.look()
    assert one.keeper.problem() == ""


async def test_without_webhook_configurations_there_is_nobody_to_trust_it_and_no_problem():
    world = World()
    for kind in KINDS:
        world.server.remove(kind, "muster")
    one = world.replica()
    await one.lead()

    assert one.keeper.problem() == ""
    assert one.keeper.live_bundles() == ()


async def test_a_new_authority_is_trusted_everywhere_before_it_signs(world):
    one, two = world.replica(), world.replica()
    await one.lead()
    await two.look()
    before = one.serving
    world.time.passed += 850  # over two thirds of 1200, less the backdating
    await one.lead()
    await one.look()
    await two.look()
    assert len(one.keeper.ring.members) == 2
    assert one.serving.authority_pem == two.serving.authority_pem == before.authority_pem
    assert world.bundles()[0].count(b"BEGIN CERTIFICATE") == 2

    world.time.passed += 11
    await one.look()
    await two.look()

    newest = pems.certificate_pem(one.keeper.ring.members[0].certificate)
    assert one.serving.authority_pem == two.serving.authority_pem == newest
    assert all(trusts(world, one) + trusts(world, two))


async def test_a_deleted_secret_comes_back_with_the_same_authorities(world):
    one = world.replica()
    await one.lead()
    before = text(world.secret())
    world.server.remove("Secret", "muster-ca", "muster-system")

    await one.look()

    assert text(world.secret()) == before


async def test_authorities_of_a_replica_that_found_no_secret_are_joined_with_those_in_memory(world):
    one, two = world.replica(), world.replica()
    await one.lead()
    world.server.remove("Secret", "muster-ca", "muster-system")
    await two.look()
    await one.look()
    await two.look()

    assert one.keeper.ring.fingerprints == two.keeper.ring.fingerprints
    assert len(one.keeper.ring.members) == 2
    assert all(trusts(world, one) + trusts(world, two)), "the authority that is trusted signs on"


@pytest.mark.parametrize("data", [{}, {secrets.KEY: "?"}, {secrets.KEY: "aGk="}, None])
async def test_a_damaged_secret_is_repaired_from_memory_and_told_to_those_who_have_none(world, data):
    one, two = world.replica(), world.replica()
    await one.lead()
    before = text(world.secret())
    world.server.put({**world.secret(), "data": data})

    with pytest.raises(errors.MaterialError, match=r"^Secret muster-system/muster-ca, key authorities.pem: "):
        await two.look()
    await one.look()

    assert text(world.secret()) == before


async def test_what_else_is_in_the_secret_stays(world):
    one = world.replica()
    await one.look()
    world.server.put({**world.secret(), "data": {"note": "aGk="}})
    await one.look()

    assert set(world.secret()["data"]) == {"note", secrets.KEY}


@pytest.mark.parametrize("bundle", ["", "aGVsbG8=", "!!"])
async def test_a_spoilt_bundle_is_written_again(world, bundle):
    one = world.replica()
    await one.lead()
    world.configure(KINDS[1], bundle)
    await one.look()
    assert KINDS[1] in one.keeper.problem()

    await one.lead()

    assert world.bundles() == [one.serving.authority_pem] * 4


async def test_an_authority_of_before_stays_trusted_for_a_while_and_then_goes(world):
    before = authorities.create(world.time.wall())
    leaf = leaves.issue(before, [SERVICE], world.time.wall())
    for kind in KINDS:
        world.configure(kind, base64.b64encode(pems.certificate_pem(before.certificate)).decode())
    one, old = world.replica(), world.replica()
    old.serving = materials.from_authority(before, leaf)
    await one.lead()
    assert all(trusts(world, one) + trusts(world, old))

    world.time.passed += trust_leader.GUESTS / 2
    await one.lead()
    assert all(trusts(world, old))
    world.time.passed += trust_leader.GUESTS / 2
    await one.lead()

    assert not any(trusts(world, old))


async def test_the_entries_of_a_configuration_that_changed_meanwhile_are_not_overwritten(world):
    one = world.replica()
    await one.look()
    read = await one.leader.configurations.read()
    world.configure(KINDS[0], "")
    with pytest.raises(transports.RefusedError):
        await one.leader.configurations.write(read[0], b"x")
    assert world.bundles() == [b""] * 4


async def test_an_outage_of_the_api_server_changes_nothing_and_leaves_are_renewed(world, away):
    one = world.replica()
    await one.lead()
    before = one.serving

    world.server.faults = away
    world.time.passed += LEAF.total_seconds() * 0.7
    with pytest.raises(transports.TransportError):
        await one.look()
    one.serve()

    assert one.serving.fingerprint != before.fingerprint
    assert all(trusts(world, one))


async def test_an_authority_that_stood_in_the_bundles_comes_into_use_while_the_api_server_is_away(world, away):
    one = world.replica()
    await one.lead()
    world.time.passed += 850  # over two thirds of 1200, less the backdating
    await one.lead()
    await one.look()
    world.server.faults = away
    world.time.passed += RULES.settle
    with pytest.raises(transports.TransportError):
        await one.look()
    one.serve()

    assert one.serving.authority_pem == pems.certificate_pem(one.keeper.ring.members[0].certificate)
    assert all(trusts(world, one))


async def test_nothing_is_known_of_authorities_while_the_first_look_fails(world, away):
    one = world.replica()
    world.server.faults = away
    with pytest.raises(transports.TransportError):
        await one.look()

    with pytest.raises(errors.AuthorityError, match="not known yet"):
        one.serve()


async def test_configurations_that_cannot_be_read_do_not_keep_a_replica_from_its_authorities(world):
    def refuse(_method, plural):
        if "webhook" in plural:
            raise RefusedError(403, "forbidden")

    world.server.faults = refuse
    one = world.replica()
    with pytest.raises(transports.RefusedError):
        await one.look()
    one.serve()

    assert one.keeper.ring.members
    assert "have not been read yet" in one.keeper.problem(), "nobody knows whether it is trusted"

    world.server.faults = lambda *_: None
    await one.lead()
    await one.look()
    assert one.keeper.problem() == ""
