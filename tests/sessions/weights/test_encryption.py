"""What becomes of files that are encrypted to whoever asked for it."""

import pyrage
import pytest

from muster.sessions.refusals import NoSpace
from muster.sessions.weights import encryption

KEY = pyrage.x25519.Identity.generate()


def test_a_full_storage_is_refused_and_nothing_appears(tmp_path, monkeypatch):
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "a").write_bytes(b"weights" * 100_000)
    real = pyrage.encrypt_file
    monkeypatch.setattr(
        encryption.pyrage, "encrypt_file", lambda source, _target, keys: real(source, "/dev/full", keys)
    )
    with pytest.raises(NoSpace, match="secret: the storage is full"):
        encryption.encrypted(tmp_path / "plain", ["a"], tmp_path / "secret", [str(KEY.to_public())])
    assert [each.name for each in tmp_path.iterdir()] == ["plain"]


def test_another_fault_is_told_as_it_is(tmp_path):
    (tmp_path / "plain").mkdir()
    with pytest.raises((OSError, pyrage.EncryptError), match="No such file"):
        encryption.encrypted(tmp_path / "plain", ["a"], tmp_path / "secret", [str(KEY.to_public())])
    assert [each.name for each in tmp_path.iterdir()] == ["plain"]
