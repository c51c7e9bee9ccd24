"""A live listener: what it shows before and after a reload, and after one that fails."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import ssl
import tempfile
from pathlib import Path

import pytest

from muster.certs import authorities, contexts, errors, probes


async def _shown(port, material):
    return await probes.dial("127.0.0.1", port, material.authority_pem, material.names[0])


def test_a_listener_shows_the_new_certificate_after_a_reload(listening, new_material):
    old, new = new_material(), new_material()

    async def scene():
        serving = contexts.ServingContext(old)
        async with listening(serving.ssl_context) as port:
            before = await _shown(port, old)
            serving.reload(new)
            return before, await _shown(port, new)

    assert asyncio.run(scene()) == (old.fingerprint, new.fingerprint)
    assert old.fingerprint != new.fingerprint


def test_an_open_connection_goes_on_through_a_reload(listening, new_material):
    old = new_material()

    async def scene():
        serving = contexts.ServingContext(old)
        async with listening(serving.ssl_context) as port:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=probes.verifier(old.authority_pem), server_hostname="localhost"
            )
            serving.reload(new_material())
            writer.write(b"still there?\n")
            answer = await reader.readline()
            writer.close()
            await writer.wait_closed()
            return answer

    assert asyncio.run(scene()) == b"still there?\n"


async def test_a_key_that_does_not_fit_leaves_the_last_good_certificate(listening, new_material):
    good = new_material()
    torn = dataclasses.replace(new_material(), key_pem=new_material().key_pem)
    serving = contexts.ServingContext(good)
    async with listening(serving.ssl_context) as port:
        with pytest.raises(errors.ServingError, match="the TLS library refuses its certificate or key") as caught:
            serving.reload(torn)
        assert caught.value.subject == torn.names[0]
        assert await _shown(port, good) == good.fingerprint
    assert serving.material is good


async def test_a_chain_that_its_ca_does_not_verify_leaves_the_last_good_one(listening, new_material, clock):
    good = new_material()
    stranger = authorities.bundle_pem(authorities.create(clock()))
    serving = contexts.ServingContext(good)
    async with listening(serving.ssl_context) as port:
        with pytest.raises(errors.ServingError, match="certificate verify failed"):
            serving.reload(dataclasses.replace(new_material(), authority_pem=stranger))
        assert await _shown(port, good) == good.fingerprint


async def test_a_context_that_would_show_another_certificate_goes_back(listening, new_material, monkeypatch):
    good, new = new_material(), new_material()
    serving = contexts.ServingContext(good)
    truth = probes.served

    def stuck(context, *rest):
        return good.fingerprint if context is serving.ssl_context else truth(context, *rest)

    async with listening(serving.ssl_context) as port:
        monkeypatch.setattr(probes, "served", stuck)
        with pytest.raises(errors.ServingError, match=f"serves the certificate {good.fingerprint}"):
            serving.reload(new)
        assert await _shown(port, good) == good.fingerprint
    assert serving.material is good


def test_a_fingerprint_that_is_not_the_leafs_is_noticed(new_material):
    wrong = dataclasses.replace(new_material(), fingerprint="00")
    with pytest.raises(errors.ServingError, match="instead of 00") as caught:
        contexts.ServingContext(wrong)
    assert caught.value.subject == wrong.names[0]


def test_the_terminal_is_never_asked_for_a_pass_phrase(new_material):
    passwords = []

    class Watched(ssl.SSLContext):
        def load_cert_chain(self, *_, password=None):
            passwords.append(password)

    contexts._load(Watched(ssl.PROTOCOL_TLS_SERVER), new_material())
    assert passwords == [b""]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_both_current_versions_of_tls_are_spoken_with_http_1_1(listening, new_material, version):
    material = new_material()
    client = probes.verifier(material.authority_pem)
    client.minimum_version = client.maximum_version = version
    client.set_alpn_protocols(["h2", "http/1.1"])
    async with listening(contexts.ServingContext(material).ssl_context) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=client, server_hostname="localhost")
        spoken = writer.get_extra_info("ssl_object")
        assert (spoken.version(), spoken.selected_alpn_protocol()) == (version.name.replace("_", "."), "http/1.1")
        writer.close()
        await writer.wait_closed()


def test_nothing_older_than_tls_1_2_is_offered(new_material):
    context = contexts.ServingContext(new_material()).ssl_context
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2


def test_no_session_can_be_resumed_with_an_old_certificate(new_material):
    material = new_material()
    context = contexts.ServingContext(material).ssl_context
    assert context.num_tickets == 0
    assert context.options & ssl.OP_NO_TICKET


def test_the_key_leaves_no_file_behind(new_material, monkeypatch, tmp_path):
    monkeypatch.setattr(contexts, "_private_place", lambda: tmp_path)
    serving = contexts.ServingContext(new_material())
    serving.reload(new_material())
    with pytest.raises(errors.ServingError):
        serving.reload(dataclasses.replace(new_material(), key_pem=b"nonsense"))
    assert list(tmp_path.iterdir()) == []


def test_while_it_is_there_only_its_owner_can_read_it(new_material, monkeypatch, tmp_path):
    seen = []

    class Watched(ssl.SSLContext):
        def load_cert_chain(self, certfile, *rest, **options):
            seen.append((Path(certfile).stat().st_mode & 0o777, Path(certfile).parent.stat().st_mode & 0o777))
            super().load_cert_chain(certfile, *rest, **options)

    contexts._load(Watched(ssl.PROTOCOL_TLS_SERVER), new_material())
    assert seen == [(0o600, 0o700)]


def test_no_place_for_a_temporary_file_is_explained(new_material, monkeypatch, tmp_path):
    monkeypatch.setattr(contexts, "_private_place", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(errors.StorageError, match="mount an emptyDir"):
        contexts.ServingContext(new_material())


async def test_a_refused_certificate_is_told_from_a_closed_port(listening, new_material, clock):
    material = new_material()
    stranger = authorities.bundle_pem(authorities.create(clock()))
    async with listening(contexts.ServingContext(material).ssl_context) as port:
        with pytest.raises(errors.ProbeError, match=r"its certificate is refused .*put the CA that signed it"):
            await probes.dial("127.0.0.1", port, stranger, "localhost")
    with pytest.raises(errors.ProbeError, match="cannot be reached"):
        await probes.dial("127.0.0.1", port, stranger, "localhost")


async def test_a_name_that_the_certificate_lacks_is_refused(listening, new_material):
    material = new_material()
    async with listening(contexts.ServingContext(material).ssl_context) as port:
        with pytest.raises(errors.ProbeError, match="Hostname mismatch"):
            await probes.dial("127.0.0.1", port, material.authority_pem, "elsewhere.example")


@pytest.mark.parametrize("bundle", [b"", b"not pem"])
async def test_a_bundle_that_is_no_pem_is_told_from_a_refused_certificate(bundle):
    with pytest.raises(errors.MaterialError, match=r"^CA bundle: holds no usable certificate"):
        await probes.dial("127.0.0.1", 1, bundle, "localhost")


def test_a_bundle_may_hold_comments_in_any_script(new_material):
    material = new_material()
    commented = "# Zertifizierungsstelle für Prüfungen\n".encode() + material.authority_pem
    context = contexts.ServingContext(material).ssl_context
    assert probes.served(context, commented, "localhost") == material.fingerprint


async def test_a_listener_that_never_speaks_is_given_up_in_time(new_material):
    bundle = new_material().authority_pem
    with socket.create_server(("127.0.0.1", 0)) as silent, pytest.raises(errors.ProbeError, match="no TLS handshake"):
        async with asyncio.timeout(5):
            await probes.dial("127.0.0.1", silent.getsockname()[1], bundle, "localhost", timeout=0.05)
