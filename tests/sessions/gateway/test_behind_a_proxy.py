"""A Gateway that clients reach by another address than its own."""

from __future__ import annotations

import httpx
import pytest
import tinker

from muster.sessions.cli.urls import checked
from tests.sessions.gateways import Gateway


class Hidden(Gateway):
    ENGINES = (*Gateway.ENGINES, "--url", "https://sessions.example:8443/muster/")


def test_links_begin_with_the_address_that_clients_use(tmp_path):
    with Hidden(tmp_path) as gateway:
        with tinker.ServiceClient(base_url=gateway.url, api_key=gateway.key) as service:
            client = service.create_lora_training_client(str(gateway.base), rank=4).result()
            path = client.save_weights_external("out").result().path
            rest = tinker.RestClient(base_url=gateway.url, api_key=gateway.key)
            (link,) = rest.get_external_weights_urls(path).result().urls.values()
            trace = rest.export_session_trace(client.model_id.split(":")[0]).result()
        trace = trace if isinstance(trace, str) else trace.url
        for each in (link, trace):
            assert each.startswith("https://sessions.example:8443/muster/api/v1/download?token=")
            behind = each.replace("https://sessions.example:8443/muster", gateway.url)
            assert httpx.get(behind, timeout=60).status_code == 200


@pytest.mark.parametrize("url", ["http://a", "https://a.example:8443", "https://a/b", "https://[::1]:80"])
def test_an_address_is_taken_as_it_is(url):
    assert checked(url) == checked(f"{url}/") == url


@pytest.mark.parametrize(
    "url", ["a.example", "ftp://a", "https://", "https://me@a", "https://a/?b", "https://a:x", "https://a b", "//a"]
)
def test_what_begins_no_link_is_refused(url):
    with pytest.raises(ValueError, match=r"--url: .* write https://HOST"):
        checked(url)
