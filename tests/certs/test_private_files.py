"""Keys on disk: readable by their owner only, whole or not there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from muster.certs import errors, files


def _mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def open_umask():
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_file_is_for_its_owner_unless_said_otherwise(tmp_path, open_umask):
    files.write(tmp_path / "tls.key", b"secret")
    files.write(tmp_path / "ca.crt", b"public", mode=files.PUBLIC)
    assert (_mode(tmp_path / "tls.key"), _mode(tmp_path / "ca.crt")) == (0o600, 0o644)


def test_a_key_written_over_a_public_file_is_private(tmp_path):
    path = tmp_path / "tls.key"
    path.write_bytes(b"old")
    path.chmod(0o644)
    files.write(path, b"new")
    assert (_mode(path), path.read_bytes()) == (0o600, b"new")


def test_the_key_is_private_before_its_first_byte(tmp_path, open_umask, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fchmod", lambda descriptor, _: seen.append(os.fstat(descriptor)))
    files.write(tmp_path / "tls.key", b"secret")
    assert [(stat.S_IMODE(status.st_mode), status.st_size) for status in seen] == [(0o600, 0)]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "tls.key"
    path.write_bytes(b"old")

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(errors.StorageError, match=r"tls\.key: cannot be written \(No space left on device\)"):
        files.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_writing_into_a_missing_directory_is_a_storage_error(tmp_path):
    with pytest.raises(errors.StorageError, match="use a directory on a writable volume"):
        files.write(tmp_path / "missing" / "tls.key", b"secret")


def test_a_set_of_files_swapped_while_it_is_read_is_read_again(mounted, new_material, monkeypatch):
    fresh, looks = new_material(), []

    def swap_after_first(path):
        data = path.read_bytes()
        if not looks:
            mounted.certificate.write_bytes(fresh.chain_pem)
            mounted.key.write_bytes(fresh.key_pem)
        looks.append(path)
        return data

    monkeypatch.setattr(files, "read", swap_after_first)
    assert mounted.contents() == (fresh.chain_pem, fresh.key_pem, fresh.authority_pem)


def test_files_that_never_come_to_rest_are_given_up(mounted, monkeypatch):
    monkeypatch.setattr(files, "read", lambda _: os.urandom(8))
    with pytest.raises(errors.MaterialError, match="keeps changing"):
        mounted.contents()


def test_an_error_carries_its_parts_for_a_log(tmp_path):
    with pytest.raises(errors.MissingError) as caught:
        files.read(Path(tmp_path, "tls.crt"))
    assert caught.value.facts() == {
        "subject": str(tmp_path / "tls.crt"),
        "problem": "is missing",
        "remedy": "mount the Secret that holds it there, or correct the path",
    }
