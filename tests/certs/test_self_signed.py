"""An authority of our own: in memory, or kept in a directory; renewed in time."""

from __future__ import annotations

import stat

import pytest

from muster.certs import contexts, errors, files, material_sources, material_stores, materials, probes


@pytest.fixture
def new_source(service, clock):
    def make(directory=None):
        return material_sources.SelfSignedSource(service, directory=directory, clock=clock)

    return make


def _trusts(bundle, material, name):
    context = contexts.ServingContext(material).ssl_context
    return probes.served(context, bundle, name) == material.fingerprint


def test_it_serves_all_names_at_once(new_source, service):
    material = new_source().current()
    assert all(_trusts(material.authority_pem, material, name) for name in service)


def test_nothing_is_written_unless_a_directory_is_given(new_source, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "write", lambda path, *_: pytest.fail(f"wrote {path}"))
    new_source().current()


def test_the_answer_stays_the_same_until_the_leaf_is_due(new_source, clock):
    source = new_source()
    first = source.current()
    clock.advance(days=59)
    assert source.current() is first


def test_the_leaf_is_renewed_under_the_same_ca_at_two_thirds(new_source, clock):
    source = new_source()
    first = source.current()
    clock.advance(days=61)
    second = source.current()
    assert second.fingerprint != first.fingerprint
    assert second.authority_pem == first.authority_pem
    assert second.leaf.remaining(clock()) > 89 * 24 * 3600


def test_a_renewed_ca_is_handed_out_together_with_the_old_one(new_source, clock):
    source = new_source()
    first = source.current()
    clock.advance(days=245)
    second = source.current()
    assert second.authority.not_after > first.authority.not_after
    assert second.authority_pem.endswith(first.authority_pem)
    assert second.authority_pem != first.authority_pem


def test_a_ca_that_is_due_does_not_wait_for_its_leaf(new_source, clock):
    source = new_source()
    source.current()
    clock.advance(days=240)
    before = source.current()
    clock.advance(days=5)
    assert not before.leaf.due(clock())
    assert source.current().authority.not_after > before.authority.not_after


def test_whatever_time_passes_what_is_served_is_valid(new_source, clock):
    source = new_source()
    for days in (0, 30, 31, 100, 1, 200, 5, 400, 90):
        clock.advance(days=days)
        material = source.current()
        assert material.leaf.covers(clock())
        assert material.authority.covers(clock())
        assert not material.leaf.due(clock())


def test_a_directory_holds_keys_that_only_the_owner_reads(new_source, tmp_path):
    directory = tmp_path / "new" / "certs"
    new_source(directory).current()
    modes = {path.name: oct(stat.S_IMODE(path.stat().st_mode)) for path in directory.iterdir()}
    assert modes == {"authority.pem": "0o600", "tls.key": "0o600", "tls.crt": "0o644", "ca.crt": "0o644"}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_the_directory_can_be_read_as_bring_your_own(new_source, tmp_path, service, clock):
    material = new_source(tmp_path).current()
    assert (
        materials.parse(files.Locations.within(tmp_path), files.Locations.within(tmp_path).contents(), service, clock())
        == material
    )


def test_the_ca_outlives_the_process_and_the_leaf_does_not(new_source, tmp_path, service):
    first = new_source(tmp_path).current()
    second = new_source(tmp_path).current()
    assert second.fingerprint != first.fingerprint
    assert _trusts(first.authority_pem, second, service[0])


def test_a_kept_ca_that_is_due_is_succeeded_and_still_trusted(new_source, tmp_path, clock):
    first = new_source(tmp_path).current()
    clock.advance(days=300)
    second = new_source(tmp_path).current()
    third = new_source(tmp_path).current()
    assert second.authority_pem.endswith(first.authority_pem)
    assert third.authority_pem == second.authority_pem


def test_a_kept_ca_that_has_expired_is_replaced(new_source, tmp_path, clock):
    first = new_source(tmp_path).current()
    clock.advance(days=366)
    second = new_source(tmp_path).current()
    assert first.authority_pem not in second.authority_pem
    assert second.authority.covers(clock())


def test_a_damaged_authority_is_never_replaced_in_silence(new_source, tmp_path):
    path = tmp_path / material_stores.AUTHORITY
    path.write_bytes(b"-----BEGIN CERTIFICATE-----\n")
    with pytest.raises(errors.MaterialError, match=r"authority\.pem: is truncated"):
        new_source(tmp_path).current()
    assert path.read_bytes() == b"-----BEGIN CERTIFICATE-----\n"


def test_a_directory_that_cannot_be_made_is_explained(new_source, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(errors.CertificateError, match="file"):
        new_source(tmp_path / "file" / "certs").current()


def test_what_could_not_be_stored_is_not_served_and_tried_again(new_source, tmp_path, monkeypatch):
    source = new_source(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(material_stores, "save", _full)
        with pytest.raises(errors.StorageError):
            source.current()
    assert source.current().authority_pem == (tmp_path / "ca.crt").read_bytes()


def _full(directory, *_):
    raise errors.StorageError(directory, "is full", "make room")
