"""A Gateway that serves TLS, with certificates that openssl makes."""

from __future__ import annotations

import os
import shutil
import ssl
import subprocess
import sys
from contextlib import suppress

import httpx
import pytest

from muster.sessions.gateway.certificates import Certificate, CertificateError
from tests.sessions.gateways import ROOT, Gateway

OPENSSL = shutil.which("openssl")
pytestmark = pytest.mark.skipif(OPENSSL is None, reason="openssl is not installed")
CLIENT = """
import sys, tinker
with tinker.ServiceClient(base_url=sys.argv[1], api_key=sys.argv[2]) as service:
    client = service.create_lora_training_client(sys.argv[3], rank=4).result()
    path = client.save_weights_external("out").result().path
    rest = tinker.RestClient(base_url=sys.argv[1], api_key=sys.argv[2])
    print(*rest.get_external_weights_urls(path).result().urls.values())
"""


def made(folder, number=1):
    """Put a certificate for 127.0.0.1 of this serial number, its key, and who signed it into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509", "-days", "1")
    authority = ("-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-subj", "/CN=authority")
    leaf = ("-keyout", folder / "tls.key", "-out", folder / "tls.crt", "-subj", "/CN=gateway")
    # A certificate that signed itself is none for the client: rustls wants an authority and a leaf.
    signed = ("-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-set_serial", str(number))
    says = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:FALSE")
    for words in ((*new, *authority), (*new, *leaf, *signed, *says)):
        subprocess.run([OPENSSL, *words], check=True, capture_output=True)


def agreed(certificate, client, name=None):
    """Return what a certificate shows to a client, in DER, after a handshake that the client found right."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    one = client.wrap_bio(to_client, to_server, server_hostname=name)
    other = certificate.context.wrap_bio(to_server, to_client, server_side=True)
    for each in (one, other, one, other):
        with suppress(ssl.SSLWantReadError):
            each.do_handshake()
    return one.getpeercert(binary_form=True)


def shown(certificate):
    """Return the serial number of what is served."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    pem = ssl.DER_cert_to_PEM_cert(agreed(certificate, client))
    told = subprocess.run([OPENSSL, "x509", "-noout", "-serial"], input=pem, capture_output=True, text=True, check=True)
    return int(told.stdout.strip().partition("=")[2], 16)


class Secured(Gateway):
    """A Gateway with TLS."""

    def __init__(self, folder):
        super().__init__(folder)
        made(folder / "tls")
        self.ENGINES = (*Gateway.ENGINES, "--tls", str(folder / "tls"))

    @property
    def url(self):
        return super().url.replace("http:", "https:")


def test_the_client_speaks_tls_with_a_gateway_whose_certificate_it_trusts_and_gets_links_to_it(tmp_path):
    with Secured(tmp_path) as gateway:
        trusted = {"SSL_CERT_FILE": str(tmp_path / "tls" / "ca.crt"), "TINKER_TELEMETRY": "0"}
        command = [sys.executable, "-c", CLIENT, gateway.url, gateway.key, str(gateway.base)]
        done = subprocess.run(
            command,
            check=False,
            env={**os.environ, **trusted},
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=120,
        )
        link = done.stdout.strip()
        assert link.startswith(f"{gateway.url}/api/v1/download?token="), done.stderr
        known = ssl.create_default_context(cafile=trusted["SSL_CERT_FILE"])
        assert httpx.get(link, verify=known, timeout=60).status_code == 200


def test_whoever_does_not_trust_it_or_speaks_no_tls_gets_nothing(tmp_path):
    with Secured(tmp_path) as gateway:
        with pytest.raises(httpx.ConnectError, match=r"(?i)certificate"):
            httpx.get(f"{gateway.url}/api/v1/healthz", timeout=60)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{gateway.url.replace('https:', 'http:')}/api/v1/healthz", timeout=60)


def test_a_certificate_that_is_renewed_is_served_from_then_on(tmp_path):
    made(tmp_path, 1)
    certificate = Certificate(tmp_path)
    assert not certificate.look()
    assert shown(certificate) == 1
    made(tmp_path, 2)
    assert certificate.look()
    assert shown(certificate) == 2


def test_a_mounted_secret_is_read_from_one_version_of_it(tmp_path):
    for number in (1, 2):
        made(tmp_path / f"..version{number}", number)
    (tmp_path / "..data").symlink_to("..version1")
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    certificate = Certificate(tmp_path)
    (tmp_path / "..next").symlink_to("..version2")
    (tmp_path / "..next").rename(tmp_path / "..data")
    assert certificate.look()
    assert shown(certificate) == 2


@pytest.mark.parametrize("spoilt", ["tls.crt", "tls.key"])
@pytest.mark.parametrize("as_what", ["of another", "torn", "none"])
def test_what_cannot_be_served_changes_nothing(tmp_path, spoilt, as_what):
    made(tmp_path, 1)
    certificate = Certificate(tmp_path)
    made(tmp_path / "other", 2)
    if as_what == "none":
        (tmp_path / spoilt).unlink()
    elif as_what == "torn":
        (tmp_path / spoilt).write_bytes((tmp_path / spoilt).read_bytes()[:40])
    else:
        shutil.copy(tmp_path / "other" / spoilt, tmp_path / spoilt)
    for _ in range(2):
        with pytest.raises(CertificateError, match=r"^--tls: .*put a chain in PEM into tls.crt"):
            certificate.look()
    assert shown(certificate) == 1


def test_a_key_with_a_password_is_refused_and_no_terminal_asked(tmp_path):
    made(tmp_path)
    command = [OPENSSL, "ec", "-aes128", "-passout", "pass:a", "-in", tmp_path / "tls.key", "-out", tmp_path / "locked"]
    subprocess.run(command, check=True, capture_output=True)
    (tmp_path / "locked").rename(tmp_path / "tls.key")
    with pytest.raises(CertificateError, match="cannot be served"):
        Certificate(tmp_path)
