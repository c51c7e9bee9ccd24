"""Certificates from files that are whole: what must hold between leaf, key, CA, names and clock."""

from __future__ import annotations

from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509 import oid

from muster.certs import authorities, contexts, errors, expiries, leaves, materials, pems

NAME = ("muster.muster-system.svc",)


def test_an_expired_leaf_is_named_with_its_date(mounted, complaint, clock):
    clock.advance(days=91)
    error = complaint()
    assert error.subject == str(mounted.certificate)
    assert error.problem.startswith("expired on ")


def test_a_leaf_of_the_future_points_at_the_clocks(mounted, complaint, clock):
    clock.advance(days=-1)
    error = complaint()
    assert error.subject == str(mounted.certificate)
    assert "is not valid before" in error.problem
    assert "clock" in error.remedy


def test_a_ca_that_expires_before_its_leaf_is_named(mount, mounted, complaint, forge, clock):
    old = authorities.create(clock(), validity=timedelta(days=1))
    mount(forge(signer=old, window=expiries.opening(clock(), timedelta(days=30))))
    mounted.authority.write_bytes(authorities.bundle_pem(old))
    clock.advance(days=2)
    error = complaint()
    assert error.subject == str(mounted.authority)
    assert error.problem.startswith("expired on ")


def test_names_that_are_not_covered_are_listed_with_those_that_are(mount, complaint, forge):
    mount(forge(sans=("muster.default.svc",)))
    error = complaint(("muster.default.svc", *NAME))
    assert error.problem == "is issued for muster.default.svc, not for muster.muster-system.svc"


def test_a_common_name_alone_is_no_name(mount, complaint, forge):
    mount(forge(sans=(), subject=NAME[0]))
    error = complaint()
    assert "is issued for no name at all" in error.problem
    assert "the common name does not count" in error.remedy


def test_no_names_at_all_is_a_mistake_of_the_caller(mounted, clock):
    with pytest.raises(errors.NamesError):
        materials.parse(mounted, mounted.contents(), (), clock())


def test_the_key_of_another_certificate_is_named(mounted, complaint, new_material):
    mounted.key.write_bytes(new_material().key_pem)
    error = complaint()
    assert error.subject == str(mounted.key)
    assert error.problem == f"is not the key of the certificate in {mounted.certificate}"


@pytest.mark.parametrize(
    ("kind", "generate"),
    [
        ("RSA", lambda: rsa.generate_private_key(65537, 2048)),
        ("secp384r1", lambda: ec.generate_private_key(ec.SECP384R1())),
        ("Ed25519", ed25519.Ed25519PrivateKey.generate),
    ],
)
def test_another_type_of_key_is_refused_by_name(mount, complaint, forge, kind, generate):
    where = mount(forge(key=generate()))
    error = complaint()
    assert (error.subject, error.problem) == (str(where.key), f"holds a key of type {kind}")
    assert "ECDSA P-256" in error.remedy


def test_a_key_in_the_older_format_with_parameters_before_it_is_accepted(mounted, service, clock):
    key = pems.private_key(mounted.key.read_bytes(), mounted.key)
    older = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    mounted.key.write_bytes(parameters + older)
    contexts.ServingContext(materials.parse(mounted, mounted.contents(), service, clock()))


def test_a_certificate_for_clients_is_refused(mount, complaint, forge):
    mount(forge(uses=[oid.ExtendedKeyUsageOID.CLIENT_AUTH]))
    assert complaint().problem == "is not issued for TLS servers"


def test_a_ca_that_did_not_sign_the_leaf_is_named(mounted, complaint, clock):
    mounted.authority.write_bytes(authorities.bundle_pem(authorities.create(clock())))
    error = complaint()
    assert error.subject == str(mounted.authority)
    assert error.problem.startswith(f"holds no CA that signed {mounted.certificate}, whose issuer is CN=muster-ca-")


def test_a_signer_that_is_no_ca_is_named(mount, mounted, complaint, forge):
    plain = forge(subject="plain")
    mount(forge(signer=authorities.Authority(plain.certificate, plain.key)))
    mounted.authority.write_bytes(pems.certificate_pem(plain.certificate))
    error = complaint()
    assert (error.subject, error.problem) == (str(mounted.authority), "is not a CA certificate (CN=plain)")


@pytest.fixture
def intermediate(forge, clock):
    """A root without the path length limit of ours, and a CA below it."""
    upper = forge(ca=True, sans=(), subject="root", signer=authorities.create(clock()))
    root = authorities.Authority(upper.certificate, upper.key)
    lower = forge(ca=True, sans=(), subject="between", signer=root)
    return root, authorities.Authority(lower.certificate, lower.key)


def test_a_chain_with_an_intermediate_is_served_whole(mount, mounted, intermediate, clock):
    root, between = intermediate
    leaf = leaves.issue(between, NAME, clock())
    mount(leaf, between.certificate)
    mounted.authority.write_bytes(pems.certificate_pem(root.certificate))
    material = materials.parse(mounted, mounted.contents(), NAME, clock())
    assert material.chain_pem.count(b"BEGIN CERTIFICATE") == 2
    assert material.authority == root.window


def test_a_missing_intermediate_is_explained(mount, mounted, complaint, intermediate, clock):
    root, between = intermediate
    mount(leaves.issue(between, NAME, clock()))
    mounted.authority.write_bytes(pems.certificate_pem(root.certificate))
    error = complaint()
    assert "whose issuer is CN=between" in error.problem
    assert "put missing intermediates after the leaf" in error.remedy


def test_an_intermediate_is_anchor_enough_as_it_is_for_go(mount, mounted, intermediate, clock):
    _, between = intermediate
    mount(leaves.issue(between, NAME, clock()))
    mounted.authority.write_bytes(pems.certificate_pem(between.certificate))
    contexts.ServingContext(materials.parse(mounted, mounted.contents(), NAME, clock()))


def test_of_two_cas_with_one_key_the_longer_valid_counts(mount, mounted, forge, clock):
    key = ec.generate_private_key(ec.SECP256R1())
    twins = [
        forge(key=key, ca=True, subject="twin", window=expiries.opening(clock(), timedelta(days=days))).certificate
        for days in (1, 50, 2)
    ]
    mount(forge(signer=authorities.Authority(twins[0], key)))
    mounted.authority.write_bytes(pems.certificate_pem(*twins))
    assert (
        materials.parse(mounted, mounted.contents(), NAME, clock()).authority.not_after == twins[1].not_valid_after_utc
    )


def test_a_chain_up_to_a_root_that_nobody_trusts_comes_to_an_end(mount, mounted, complaint, forge, authority, clock):
    mount(forge(), authority.certificate)
    mounted.authority.write_bytes(authorities.bundle_pem(authorities.create(clock())))
    assert complaint().problem.startswith(f"holds no CA that signed {mounted.certificate}")


def test_a_leaf_may_be_its_own_anchor_as_it_may_for_go(mount, mounted, forge, clock):
    leaf = forge()
    mount(leaf)
    mounted.authority.write_bytes(pems.certificate_pem(leaf.certificate))
    serving = contexts.ServingContext(materials.parse(mounted, mounted.contents(), NAME, clock()))
    assert serving.material.authority == leaf.window
