"""Bundles of CAs that are empty, foreign, damaged or near their end, and the certificate that a listener shows."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from datetime import UTC, datetime, timedelta

import pytest

from muster.certs import authorities, contexts, leaves, materials, pems
from muster.webhook.doctor import webhook_entries
from tests.doctor import worlds

NAME = "create.trainjobs.muster.dev"
NOW = datetime(2026, 11, 22, tzinfo=UTC)
YEAR = timedelta(days=365)


def authority(made=None, validity=YEAR):
    return authorities.create(made or datetime.now(UTC), validity=validity)


def entry(*made):
    pem = b"".join(pems.certificate_pem(each.certificate) for each in made)
    return {"clientConfig": {"caBundle": base64.b64encode(pem).decode()}}


def judged(*made, now=NOW):
    (finding,) = webhook_entries.judge_bundles([("an entry", entry(*made))], now)
    return finding.severity.value, finding.what


@pytest.mark.parametrize(
    ("bundle", "said"),
    [
        (None, "caBundle is empty"),
        ("", "caBundle is empty"),
        ("%%%", "caBundle is not base64"),
        (base64.b64encode(b"hello").decode(), "caBundle holds no PEM certificate"),
        (base64.b64encode(b"-----BEGIN CERTIFICATE-----\nx").decode(), "caBundle is truncated"),
    ],
)
async def test_a_bundle_that_is_none_is_an_error_of_its_entry(world, examine, bundle, said):
    world.entries[NAME]["clientConfig"]["caBundle"] = bundle
    found = await examine("ca-bundle")
    assert found[0].startswith(f"error ca-bundle: mutating entry {NAME}: {said}")
    assert f"not all entries have the same bundle of CAs: mutating entry {NAME} differ from the rest" in found[1]


async def test_one_bundle_for_all_entries_is_one_finding(world, examine):
    for each in world.every_entry():
        each["clientConfig"]["caBundle"] = ""
    (line,) = await examine("ca-bundle")
    assert f"mutating entry {NAME} and 7 more: caBundle is empty" in line


def test_an_expired_ca_is_an_error():
    severity, what = judged(authority(NOW - 2 * YEAR))
    assert (severity, what) == (
        "error",
        "an entry: the CAs in caBundle expired on 2025-11-22 00:00 UTC, so no job can be created",
    )


def test_a_ca_of_tomorrow_is_an_error():
    assert "are not valid before 2026-11-22 23:55 UTC" in judged(authority(NOW + timedelta(days=1)))[1]


@pytest.mark.parametrize(
    ("validity", "age", "severity"),
    [
        (YEAR, YEAR - timedelta(days=31), "ok"),
        (YEAR, YEAR - timedelta(days=29), "warning"),
        (timedelta(days=1), timedelta(hours=19), "ok"),
        (timedelta(days=1), timedelta(hours=21), "warning"),
    ],
)
def test_the_end_of_a_ca_is_told_beforehand_in_proportion_to_its_life(validity, age, severity):
    assert judged(authority(NOW - age, validity))[0] == severity


def test_an_old_ca_beside_a_new_one_is_fine():
    severity, what = judged(authority(NOW - 2 * YEAR), authority(NOW))
    assert severity == "ok"
    assert "2 CAs, the newest valid until 2027-11-22" in what


@pytest.fixture
async def listen():
    """Show a certificate of an authority for some names; returns the port."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(signer, *names):
            material = materials.from_authority(signer, leaves.issue(signer, names, datetime.now(UTC)))
            serving = contexts.ServingContext(material).ssl_context
            server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0, ssl=serving)
            stack.push_async_callback(server.wait_closed)
            stack.callback(server.close)
            return server.sockets[0].getsockname()[1]

        yield start


def by_url(world, port, signer, host="127.0.0.1"):
    for each in world.every_entry():
        path = each["clientConfig"]["service"]["path"]
        each["clientConfig"] = {"url": f"https://{host}:{port}{path}", "caBundle": worlds.encoded(signer)}


async def test_a_listener_that_is_called_by_url_is_dialled(world, examine, listen):
    signer = authority()
    by_url(world, await listen(signer, "127.0.0.1"), signer)
    (line,) = await examine("certificate")
    assert line.startswith("ok certificate: 127.0.0.1:")


async def test_a_listener_with_a_certificate_of_another_ca_is_an_error(world, examine, listen):
    by_url(world, await listen(authority(), "127.0.0.1"), authority())
    (line,) = await examine("certificate")
    assert line.startswith("error certificate: the certificate at 127.0.0.1:")
    assert "does not verify against caBundle as 127.0.0.1" in line


async def test_a_listener_with_a_certificate_for_another_name_is_an_error(world, examine, listen):
    signer = authority()
    by_url(world, await listen(signer, "elsewhere.example.org"), signer)
    assert (await examine("certificate"))[0].startswith("error certificate")


async def test_a_listener_that_cannot_be_reached_from_here_is_unknown(world, examine):
    by_url(world, 1, authority())
    (line,) = await examine("certificate")
    assert line.startswith("unknown certificate: 127.0.0.1:1 cannot be reached")


async def test_a_given_address_is_dialled_with_the_name_of_the_service(world, examine, listen):
    signer = authority()
    port = await listen(signer, "muster.muster-system.svc")
    for each in world.every_entry():
        each["clientConfig"]["caBundle"] = worlds.encoded(signer)
    (line,) = await examine("certificate", dial=("127.0.0.1", port))
    assert line.startswith("ok certificate")


async def test_where_webhooks_are_called_by_url_no_deployment_and_no_service_is_missed(world, examine):
    by_url(world, 1, authority())
    del world.objects[worlds.DEPLOYMENT], world.objects[worlds.SERVICE]
    found = await examine("deployment") + await examine("service")
    assert [line.split(":")[0] for line in found] == ["ok deployment", "ok service"]
    assert await examine("replicas") == []
