"""`tls.secret` of the configuration: what is there by itself, and what is refused with its reason."""

from __future__ import annotations

import pytest

from muster.webhook import configs
from muster.webhook.server.services import Service


def parsed(text):
    return configs.parse(text.encode(), "muster.yaml")


def test_an_empty_secret_has_all_its_defaults():
    secret = parsed("tls: {secret: {}}").tls.secret
    assert (secret.name, secret.namespace, secret.lease.name) == ("muster-ca", "muster-system", "muster-certificates")
    assert secret.leaf_validity * 3 <= secret.authority_validity


def test_a_lease_that_is_given_in_part_keeps_its_name():
    assert parsed("tls: {secret: {lease: {duration: 20}}}").tls.secret.lease.name == "muster-certificates"


@pytest.mark.parametrize(
    ("secret", "told"),
    [
        ("{leafValidity: 600, authorityValidity: 1000}", "an authority must live three times as long as a leaf"),
        ("{leafValidity: 60, settle: 30}", "settle and two intervals must fit into a third of it"),
        ("{name: Muster_CA}", "tls.secret.name"),
        ("{authorityvalidity: 5}", "tls.secret.authorityvalidity: is not a key of the configuration"),
    ],
)
def test_what_cannot_work_is_refused_by_its_path(secret, told):
    with pytest.raises(configs.ConfigError, match=r"^muster.yaml: tls.secret") as caught:
        parsed(f"tls: {{secret: {secret}}}")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("tls", "told"),
    [
        ("{secret: {}, selfSigned: true}", "secret is set together with other sources"),
        ("{secret: {}, certFile: /tls.crt}", "secret is set together with other sources"),
        ("{secret: {}}", "needs cluster.source: live"),
        ("{certFile: /tls.crt}", "keyFile, caFile missing"),
    ],
)
async def test_a_service_does_not_start_with_a_source_that_cannot_be(tls, told):
    service = Service(parsed(f"{{tls: {tls}, cluster: {{source: files}}, server: {{port: 0}}}}"))
    with pytest.raises(configs.ConfigError, match=told):
        await service.start()
