"""Certificates from files: missing, unreadable and damaged ones are each told by name."""

from __future__ import annotations

import base64
import contextlib
import os

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.certs import contexts, errors, files, leaves, materials

NAME = ("muster.muster-system.svc",)


def test_good_files_make_material_that_serves(mounted, service, clock):
    material = materials.parse(mounted, mounted.contents(), service, clock())
    assert contexts.ServingContext(material).material.names == service


@pytest.mark.parametrize("part", ["certificate", "key", "authority"])
def test_a_missing_file_is_named(mounted, complaint, part):
    path = getattr(mounted, part)
    path.unlink()
    error = complaint()
    assert isinstance(error, errors.MissingError)
    assert str(error).startswith(f"{path}: is missing; mount the Secret")


@pytest.mark.parametrize("part", ["certificate", "key", "authority"])
def test_an_empty_file_is_named(mounted, complaint, part):
    path = getattr(mounted, part)
    path.write_bytes(b"\n")
    assert str(complaint()).startswith(f"{path}: is empty; issue the")


@pytest.mark.parametrize("part", ["certificate", "key", "authority"])
def test_a_directory_in_place_of_a_file_is_named(mounted, complaint, part):
    path = getattr(mounted, part)
    path.unlink()
    path.mkdir()
    assert str(complaint()).startswith(f"{path}: is not a regular file")


def test_a_named_pipe_does_not_hold_the_reader(mounted, complaint):
    mounted.key.unlink()
    os.mkfifo(mounted.key)
    assert complaint().problem == "is not a regular file"


def test_a_file_that_may_not_be_read_is_named(mounted, complaint, monkeypatch):
    def refuse(name, flags):
        raise PermissionError(13, "Permission denied", name)

    monkeypatch.setattr(files, "_open_at_once", refuse)
    assert f"is not readable by user id {os.geteuid()}" in str(complaint())


def test_a_file_that_cannot_be_read_for_another_reason_is_named(mounted, complaint):
    mounted.key.unlink()
    mounted.key.symlink_to(mounted.key)
    assert "cannot be read (Too many levels of symbolic links)" in str(complaint())


def test_a_huge_file_is_not_swallowed(mounted, complaint):
    mounted.authority.write_bytes(b"x" * (files.LIMIT + 1))
    assert complaint().problem == f"is larger than {files.LIMIT} bytes"


def test_a_file_of_the_largest_size_is_read_whole(tmp_path):
    (tmp_path / "ca.crt").write_bytes(b"x" * files.LIMIT)
    assert len(files.read(tmp_path / "ca.crt")) == files.LIMIT


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(data=st.data(), part=st.sampled_from(["certificate", "key", "authority"]))
def test_a_file_cut_off_anywhere_is_named(mounted, clock, data, part):
    path = getattr(mounted, part)
    whole = path.read_bytes()
    path.write_bytes(whole[: data.draw(st.integers(0, len(whole) - 2))])
    try:
        with pytest.raises(errors.MaterialError) as caught:
            materials.parse(mounted, mounted.contents(), NAME, clock())
    finally:
        path.write_bytes(whole)
    assert caught.value.subject == str(path)


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None)
@given(data=st.data(), part=st.sampled_from(["certificate", "key", "authority"]), byte=st.integers(0, 255))
def test_a_damaged_byte_anywhere_is_refused_or_does_no_harm(mounted, clock, data, part, byte):
    path = getattr(mounted, part)
    whole = path.read_bytes()
    where = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:where] + bytes([byte]) + whole[where + 1 :])
    try:
        with contextlib.suppress(errors.CertificateError):
            contexts.ServingContext(materials.parse(mounted, mounted.contents(), NAME, clock()))
    finally:
        path.write_bytes(whole)


def test_a_bundle_whose_second_certificate_is_cut_off_is_not_taken_for_whole(mounted, complaint):
    one = mounted.authority.read_bytes()
    mounted.authority.write_bytes(one + one[:200])
    assert complaint().problem == "is truncated (2 certificates begin, 1 end)"


def test_a_damaged_key_is_not_quoted(mounted, complaint):
    lines = mounted.key.read_text().splitlines()
    lines[1] = "!!!" + lines[1][3:]
    mounted.key.write_text("\n".join(lines))
    error = complaint()
    assert (error.subject, error.problem) == (str(mounted.key), "holds a damaged key")


@pytest.mark.parametrize(("part", "other"), [("certificate", "key"), ("key", "certificate")])
def test_swapped_paths_are_recognised(mounted, complaint, part, other):
    getattr(mounted, part).write_bytes(getattr(mounted, other).read_bytes())
    error = complaint()
    assert error.subject == str(getattr(mounted, part))
    assert "swap the two paths" in error.remedy


@pytest.mark.parametrize("part", ["certificate", "key"])
def test_der_is_not_pem(mounted, complaint, part):
    getattr(mounted, part).write_bytes(b"0\x82\x01\x01binary")
    assert complaint().remedy == "convert it to PEM, or name the right file"


def test_an_encrypted_key_is_refused_without_asking_for_its_pass_phrase(mounted, complaint, authority):
    secret = serialization.BestAvailableEncryption(b"secret")
    mounted.key.write_bytes(
        authority.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secret)
    )
    assert complaint().problem == "is encrypted"


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")
def test_a_negative_serial_number_is_refused_before_the_api_server_does(mount, complaint, forge):
    leaf = forge()
    der = bytearray(leaf.certificate.public_bytes(serialization.Encoding.DER))
    der[der.index(b"\x02\x14") + 2] |= 0x80
    mount(leaves.Leaf(x509.load_der_x509_certificate(bytes(der)), leaf.key))
    assert complaint().problem == "holds a certificate with a negative serial number"


@pytest.mark.parametrize(
    ("part", "field", "offset"),
    [("the version", "a003020102", 4), ("the names", "0603551d11", 7), ("the curve", "2a8648ce3d030107", 7)],
)
def test_damage_that_the_library_reports_in_its_own_ways_is_refused(mount, complaint, forge, part, field, offset):
    leaf = forge()
    broken = bytearray(leaf.certificate.public_bytes(serialization.Encoding.DER))
    broken[broken.index(bytes.fromhex(field)) + offset] ^= 0x1F
    where = mount(leaf)
    text = base64.encodebytes(bytes(broken))
    where.certificate.write_bytes(b"-----BEGIN CERTIFICATE-----\n" + text + b"-----END CERTIFICATE-----\n")
    assert complaint().problem.startswith("holds a damaged certificate ("), part
