"""The certificate of the listener: which names it must have, and what is said of it."""

from __future__ import annotations

import datetime

import pytest

from muster.certs import authorities, leaves, pems, probes
from muster.webhook import configs
from muster.webhook.server import certificates

NOW = datetime.datetime.now(datetime.UTC)
CALLED = "muster.muster-system.svc"


@pytest.fixture
def given(tmp_path):
    """Settings for files whose certificate has one name only, the one that the API server calls."""
    authority = authorities.create(NOW)
    leaf = leaves.issue(authority, (CALLED,), NOW)
    contents = {
        "tls.crt": pems.certificate_pem(leaf.certificate),
        "tls.key": pems.key_pem(leaf.key),
        "ca.crt": authorities.bundle_pem(authority),
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    crt, key, ca = (tmp_path / name for name in contents)
    return configs.Tls(certFile=crt, keyFile=key, caFile=ca, names=("muster.example.com",))


@pytest.fixture
async def served(given):
    made = certificates.Certificate(certificates.choose(given))
    yield made
    await made.stop()


def test_a_certificate_from_files_needs_the_name_that_the_api_server_calls_and_no_other(given):
    assert certificates.choose(given).current().names[0] == CALLED


async def test_a_certificate_that_was_never_started_can_be_stopped(served):
    await served.stop()
    assert await served.problem(1) == "there is no certificate yet"
    assert (served.seconds_left(), served.lifetimes()) == ({}, {})


async def test_leaf_and_authority_expire_at_a_time_of_their_own(served):
    await served.start()
    left, whole = served.seconds_left(), served.lifetimes()
    assert left.keys() == whole.keys() == {"leaf", "authority"}
    assert all(0 < left[name] <= whole[name] for name in left)
    assert whole["leaf"] < whole["authority"]


async def test_another_certificate_than_ones_own_on_ones_own_port_is_a_problem(served, monkeypatch):
    await served.start()
    shown = []

    async def dial(*_asked, **_more):
        return shown[-1]

    monkeypatch.setattr(probes, "dial", dial)
    shown.append("00")
    assert (await served.problem(1)).startswith("the listener shows certificate 00, not ")
    shown.append(served._serving.material.fingerprint)
    assert await served.problem(1) == ""
