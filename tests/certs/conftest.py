"""Fixtures that forge certificates, good and bad, and listeners that show them."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid

from muster.certs import (
    authorities,
    errors,
    expiries,
    files,
    leaves,
    materials,
    pems,
    subject_names,
)

FULL_LENGTH_SERIAL = 0x5A << 152


@dataclass
class FakeClock:
    now: datetime

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **units: float) -> None:
        self.now += timedelta(**units)


@pytest.fixture
def clock():
    """Starts at the real time, since the TLS library looks at the real clock."""
    return FakeClock(expiries.utc_now())


@pytest.fixture(scope="session")
def service():
    return subject_names.service_names("muster", "muster-system", local=True)


@pytest.fixture(scope="session")
def authority():
    return authorities.create(datetime.now(UTC))


@pytest.fixture
def new_material(authority, service):
    def make(signer=authority, sans=service):
        return materials.from_authority(signer, leaves.issue(signer, sans, expiries.utc_now()))

    return make


@pytest.fixture
def forge(authority):
    """Signs a certificate with anything wrong that a test asks for."""

    def make(
        *,
        key=None,
        sans=("muster.muster-system.svc",),
        window=None,
        uses=(),
        ca=None,
        signer=authority,
        subject="forged",
    ):
        key = key or ec.generate_private_key(ec.SECP256R1())
        window = window or expiries.opening(expiries.utc_now(), timedelta(days=1))
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(oid.NameOID.COMMON_NAME, subject)]))
            .issuer_name(signer.certificate.subject)
            .public_key(key.public_key())
            .serial_number(FULL_LENGTH_SERIAL)
            .not_valid_before(window.not_before)
            .not_valid_after(window.not_after)
        )
        if sans:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([x509.DNSName(s) for s in sans]), critical=False
            )
        if uses:
            builder = builder.add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        if ca is not None:
            builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        return leaves.Leaf(builder.sign(signer.key, hashes.SHA256()), key)

    return make


@pytest.fixture
def mounted(tmp_path, authority, new_material):
    """A directory with good files, as a mounted Secret has them."""
    where = files.Locations.within(tmp_path)
    good = new_material()
    where.certificate.write_bytes(good.chain_pem)
    where.key.write_bytes(good.key_pem)
    where.authority.write_bytes(good.authority_pem)
    return where


@pytest.fixture
def mount(mounted):
    """Replaces the certificate, and its key if that can be served, in the mounted files."""

    def put(leaf, *more: x509.Certificate):
        mounted.certificate.write_bytes(pems.certificate_pem(leaf.certificate, *more))
        mounted.key.write_bytes(pems.key_pem(leaf.key))
        return mounted

    return put


@pytest.fixture
def complaint(mounted, clock):
    """The error that reading the mounted files gives, checked to name a file and a remedy."""

    def get(names=("muster.muster-system.svc",)):
        with pytest.raises(errors.MaterialError) as caught:
            materials.parse(mounted, mounted.contents(), names, clock())
        assert caught.value.remedy
        return caught.value

    return get


@pytest.fixture
def listening():
    """An asyncio TLS listener on loopback that answers each line with itself; yields its port."""

    async def echo(reader, writer):
        with contextlib.suppress(OSError):
            while line := await reader.readline():
                writer.write(line)
                await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def listen(context):
        server = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=context)
        try:
            yield server.sockets[0].getsockname()[1]
        finally:
            server.close()
            await server.wait_closed()

    return listen
