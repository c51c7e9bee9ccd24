"""What verifiers make of our CA and leaves: an independent strict one, and OpenSSL by way of a handshake."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import oid, verification

from muster.certs import (
    authorities,
    contexts,
    errors,
    expiries,
    leaves,
    materials,
    pems,
    probes,
    subject_names,
)


def _verify(leaf, roots, name, now):
    subject = x509.IPAddress(subject_names.address(name)) if subject_names.address(name) else x509.DNSName(name)
    builder = verification.PolicyBuilder().store(verification.Store(roots)).time(now)
    return builder.build_server_verifier(subject).verify(leaf.certificate, [])


def _value(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind)


def test_a_strict_verifier_accepts_the_leaf_for_each_of_its_names(authority, service, clock):
    leaf = leaves.issue(authority, service, clock())
    for name in service:
        assert _verify(leaf, [authority.certificate], name, clock())


def test_a_strict_verifier_refuses_a_name_that_the_leaf_does_not_have(authority, service, clock):
    leaf = leaves.issue(authority, service, clock())
    with pytest.raises(verification.VerificationError):
        _verify(leaf, [authority.certificate], "other.muster-system.svc", clock())


def test_the_leaf_of_another_authority_is_refused(service, authority, clock):
    leaf = leaves.issue(authorities.create(clock()), service, clock())
    with pytest.raises(verification.VerificationError):
        _verify(leaf, [authority.certificate], service[0], clock())


def test_a_leaf_signs_and_is_no_authority(service, authority, clock):
    certificate = leaves.issue(authority, service, clock()).certificate
    constraints = _value(certificate, x509.BasicConstraints)
    usage = _value(certificate, x509.KeyUsage)
    assert (constraints.critical, constraints.value.ca) == (True, False)
    assert (usage.critical, usage.value.digital_signature, usage.value.key_cert_sign) == (True, True, False)


def test_the_ca_signs_leaves_and_nothing_else(authority):
    certificate = authority.certificate
    constraints = _value(certificate, x509.BasicConstraints)
    usage = _value(certificate, x509.KeyUsage)
    assert constraints.critical
    assert (constraints.value.ca, constraints.value.path_length) == (True, 0)
    assert usage.critical
    assert (usage.value.key_cert_sign, usage.value.digital_signature) == (True, False)


def test_a_ca_below_our_ca_is_worthless(authority, forge, service, clock):
    forged = forge(ca=True, sans=(), subject="upstart")
    upstart = authorities.Authority(forged.certificate, forged.key)
    leaf = leaves.issue(upstart, service, clock())
    builder = verification.PolicyBuilder().store(verification.Store([authority.certificate])).time(clock())
    with pytest.raises(verification.VerificationError):
        builder.build_server_verifier(x509.DNSName(service[0])).verify(leaf.certificate, [forged.certificate])


def test_the_leaf_serves_tls_and_may_not_sign(authority, service, clock):
    certificate = leaves.issue(authority, service, clock()).certificate
    assert list(_value(certificate, x509.ExtendedKeyUsage).value) == [oid.ExtendedKeyUsageOID.SERVER_AUTH]
    assert not _value(certificate, x509.BasicConstraints).value.ca
    assert not _value(certificate, x509.KeyUsage).value.key_cert_sign


def test_the_leaf_points_at_the_key_of_its_ca(authority, service, clock):
    leaf = leaves.issue(authority, service, clock()).certificate
    issuer = _value(leaf, x509.AuthorityKeyIdentifier).value.key_identifier
    assert issuer == _value(authority.certificate, x509.SubjectKeyIdentifier).value.digest


def test_every_key_is_p256(authority, service, clock):
    leaf = leaves.issue(authority, service, clock())
    assert isinstance(authority.key.curve, ec.SECP256R1)
    assert isinstance(leaf.key.curve, ec.SECP256R1)


def test_a_client_whose_clock_is_four_minutes_behind_accepts_both(service, clock):
    authority = authorities.create(clock())
    leaf = leaves.issue(authority, service, clock())
    assert _verify(leaf, [authority.certificate], service[0], clock() - timedelta(minutes=4))


def test_a_leaf_never_outlives_its_ca(service, clock):
    authority = authorities.create(clock(), validity=timedelta(days=10))
    leaf = leaves.issue(authority, service, clock(), validity=timedelta(days=90))
    assert leaf.window.not_after == authority.window.not_after


@pytest.mark.parametrize("days", [-1, 400])
def test_a_ca_outside_its_validity_signs_nothing(authority, service, clock, days):
    clock.advance(days=days)
    with pytest.raises(errors.AuthorityError, match="renew the CA, or correct the clock"):
        leaves.issue(authority, service, clock())


def test_an_authority_survives_being_written_as_pem(authority, service, clock):
    again = authorities.load(
        authorities.bundle_pem(authority), pems.key_pem(authority.key), bundle_origin="ca.crt", key_origin="ca.key"
    )
    assert _verify(leaves.issue(again, service, clock()), [authority.certificate], service[0], clock())


def test_an_authority_is_not_loaded_with_the_key_of_another(authority, clock):
    other = pems.key_pem(authorities.create(clock()).key)
    with pytest.raises(errors.MaterialError, match=r"ca\.key: is not the key of the certificate in ca\.crt"):
        authorities.load(authorities.bundle_pem(authority), other, bundle_origin="ca.crt", key_origin="ca.key")


def test_a_leaf_is_no_authority(authority, service, clock):
    leaf = leaves.issue(authority, service, clock())
    with pytest.raises(errors.MaterialError, match=r"ca\.crt: is not a CA certificate"):
        authorities.load(
            pems.certificate_pem(leaf.certificate), pems.key_pem(leaf.key), bundle_origin="ca.crt", key_origin="ca.key"
        )


def test_leaves_of_the_old_and_the_new_ca_are_trusted_by_one_bundle(authority, service, new_material):
    successor = authorities.succeed(authority, expiries.utc_now())
    bundle = authorities.bundle_pem(successor)
    for signer in (authority, successor):
        material = new_material(signer)
        serving = contexts.ServingContext(material)
        assert probes.served(serving.ssl_context, bundle, service[0]) == material.fingerprint


def test_a_successor_drops_predecessors_that_have_expired(clock):
    first = authorities.create(clock(), validity=timedelta(days=10))
    clock.advance(days=7)
    second = authorities.succeed(first, clock())
    clock.advance(days=7)
    third = authorities.succeed(second, clock())
    assert second.predecessors == (first.certificate,)
    assert third.predecessors == (second.certificate,)


def test_material_carries_what_it_was_made_of(authority, service, clock):
    leaf = leaves.issue(authority, service, clock())
    material = materials.from_authority(authority, leaf)
    assert (material.names, material.leaf, material.authority) == (service, leaf.window, authority.window)
    assert material.fingerprint == leaf.fingerprint


def test_no_private_key_shows_in_a_representation(authority, new_material):
    material = new_material()
    for shown in (repr(material), repr(authority), repr(leaves.issue(authority, ("a",), expiries.utc_now()))):
        assert "PRIVATE" not in shown
        assert "key=" not in shown
