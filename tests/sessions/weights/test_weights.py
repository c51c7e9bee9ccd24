"""A folder of weights appears whole or not, and what is torn is refused while the old stays."""

import errno
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import blake3
import pytest
import safetensors.torch
import torch

from muster.sessions.refusals import NoSpace, Refused
from muster.sessions.weights import folders, hashes, manifest, streams, tensors

_FILE = "adapter_model.safetensors"


def _published(folder, value=1.0):
    tensors.publish(folder, {_FILE: {"a": torch.full((2, 3), value)}}, {"adapter_config.json": "{}"}, {"rank": 4})
    return folder


def test_what_was_published_is_read_back(tmp_path):
    folder = _published(tmp_path / "deep" / "v1")
    assert torch.equal(tensors.read(folder, _FILE)["a"], torch.ones(2, 3))
    assert manifest.verify(folder).about == {"rank": 4}


def test_a_manifest_names_shapes_dtypes_and_hashes(tmp_path):
    told = json.loads((_published(tmp_path / "v1") / "manifest.json").read_text())
    assert told["version"] == 2
    assert told["files"][_FILE]["tensors"] == {"a": {"dtype": "F32", "shape": [2, 3]}}
    assert told["files"]["adapter_config.json"]["blake3"] == blake3.blake3(b"{}").hexdigest()


def test_weights_of_an_earlier_version_are_read_and_written_where_blake3_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr(hashes, "BEST", "sha256")
    monkeypatch.setattr(hashes, "blake3", None)
    told = json.loads((_published(tmp_path / "v1") / "manifest.json").read_text())
    assert told["version"] == 1
    assert told["files"]["adapter_config.json"]["sha256"] == hashlib.sha256(b"{}").hexdigest()
    monkeypatch.undo()
    assert torch.equal(tensors.read(tmp_path / "v1", _FILE)["a"], torch.ones(2, 3))
    assert manifest.verify(tmp_path / "v1").about == {"rank": 4}


@pytest.mark.parametrize("hurt", [Path, lambda folder: _flipped(folder / _FILE)])
def test_weights_whose_hash_is_not_installed_are_refused_with_its_name(tmp_path, monkeypatch, hurt):
    hurt(_published(tmp_path / "v1"))
    monkeypatch.setattr(hashes, "blake3", None)
    for read in (lambda: tensors.read(tmp_path / "v1", _FILE), lambda: manifest.verify(tmp_path / "v1")):
        with pytest.raises(Refused, match="has blake3 hashes: install blake3"):
            read()


@pytest.mark.parametrize("size", [0, 1, streams._PIECE - 1, streams._PIECE, 2 * streams._PIECE + 5])
@pytest.mark.parametrize("name", hashes.KNOWN)
def test_a_hash_is_that_of_the_whole_file_whatever_the_sizes_of_its_tensors(tmp_path, monkeypatch, name, size):
    monkeypatch.setattr(hashes, "BEST", name)
    drawn = {"a": torch.rand(size // 4), "b": torch.rand(3), "c": torch.rand(size // 2).to(torch.bfloat16)}
    tensors.publish(tmp_path / "v", {_FILE: drawn}, {}, {})
    entry = manifest.read(tmp_path / "v").files[_FILE]
    assert entry.digest == hashes.digest((tmp_path / "v" / _FILE).read_bytes(), name)
    found = tensors.read(tmp_path / "v", _FILE)
    assert all(torch.equal(found[key], each) for key, each in drawn.items())


def test_tensors_lie_where_torch_would_put_them_and_one_may_change_without_the_others(tmp_path):
    drawn = {name: torch.ones(3) for name in "abc"}
    tensors.publish(tmp_path / "v", {_FILE: drawn}, {}, {})
    found = tensors.read(tmp_path / "v", _FILE)
    assert all(each.data_ptr() % 64 == 0 for each in found.values())
    found["b"].add_(1)
    assert torch.equal(found["a"], drawn["a"])
    assert torch.equal(found["c"], drawn["c"])
    assert torch.equal(tensors.read(tmp_path / "v", _FILE)["b"], drawn["b"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
def test_every_dtype_comes_back_bit_for_bit(tmp_path, dtype):
    drawn = torch.randn(5, 4).to(dtype)
    tensors.publish(tmp_path / "v", {_FILE: {"a": drawn}}, {}, {})
    assert torch.equal(tensors.read(tmp_path / "v", _FILE)["a"], drawn)


_MIXED = {
    "z": torch.arange(6.0).reshape(2, 3),
    "b": torch.arange(5).to(torch.bfloat16),
    "step": torch.tensor(3.0),
    "a": torch.arange(4, dtype=torch.float64).reshape(2, 2).T,
    "none": torch.zeros(0, 4),
    "h": torch.ones(3, dtype=torch.float16),
    "grown": torch.ones(2, 2, requires_grad=True),
}


def test_files_are_those_that_the_library_writes_and_reads(tmp_path):
    tensors.publish(tmp_path / "v", {_FILE: _MIXED}, {}, {})
    plain = {name: each.detach().contiguous() for name, each in _MIXED.items()}
    assert (tmp_path / "v" / _FILE).read_bytes() == safetensors.torch.save(plain)
    found = tensors.read(tmp_path / "v", _FILE)
    assert found.keys() == _MIXED.keys()
    assert all(torch.equal(found[name], each) for name, each in _MIXED.items())


def _file(header, data=b"\0" * 16):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 7,
        b"\xff" * 8,
        _file(b"[" * 100_000),
        _file(b"\xff"),
        _file([]),
        _file({"a": 1}),
        _file({"a": {"dtype": "I64", "shape": [2], "data_offsets": [0, 16]}}),
        _file({"a": {"dtype": [], "shape": [4], "data_offsets": [0, 16]}}),
        _file({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 8]}}),
        _file({"a": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16, 16]}}),
        _file({"a": {"dtype": "F32", "shape": [1 << 60], "data_offsets": [0, 1 << 62]}}),
        _file({"a": {"dtype": "F32", "shape": [-2, -2], "data_offsets": [0, 16]}}),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}}),
        _file({name: {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]} for name in "ab"}),
    ],
)
def test_a_file_of_the_right_hash_that_holds_no_tensors_is_refused(tmp_path, data):
    folder = _published(tmp_path / "v1")
    told = json.loads((folder / "manifest.json").read_text())
    told["files"][_FILE] |= {"size": len(data), "blake3": blake3.blake3(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(told))
    (folder / _FILE).write_bytes(data)
    with pytest.raises(Refused, match="holds no tensors"):
        tensors.read(folder, _FILE)


def test_publishing_again_replaces_all_of_it_and_leaves_nothing_beside(tmp_path):
    folder = _published(tmp_path / "v1")
    (folder / "stray").write_text("old")
    _published(folder, 2.0)
    assert tensors.read(folder, _FILE)["a"][0, 0] == 2
    assert sorted(each.name for each in tmp_path.iterdir()) == ["v1"]
    assert not (folder / "stray").exists()


def test_folders_are_swapped_where_the_file_system_has_no_exchange(tmp_path, monkeypatch):
    folder = _published(tmp_path / "v1")

    class _Libc:
        @staticmethod
        def renameat2(*_args):
            return -1

    monkeypatch.setattr(folders.ctypes, "CDLL", lambda *_a, **_k: _Libc)
    _published(folder, 3.0)
    assert tensors.read(folder, _FILE)["a"][0, 0] == 3
    assert sorted(each.name for each in tmp_path.iterdir()) == ["v1"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("at", [(Path, "write_bytes"), (streams.os, "fsync")])
def test_a_full_storage_is_refused_and_the_old_weights_stay(tmp_path, monkeypatch, code, at):
    folder = _published(tmp_path / "v1")

    def full(*_args, **_kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(*at, full)
    with pytest.raises(NoSpace, match="v1: the storage is full"):
        _published(folder, 2.0)
    monkeypatch.undo()
    assert tensors.read(folder, _FILE)["a"][0, 0] == 1
    assert sorted(each.name for each in tmp_path.iterdir()) == ["v1"]


def test_another_fault_of_the_storage_is_not_a_refusal(tmp_path, monkeypatch):
    def broken(*_args, **_kwargs):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(Path, "write_bytes", broken)
    with pytest.raises(OSError, match="broken"):
        _published(tmp_path / "v1")


def test_all_files_and_the_folder_are_on_the_storage_before_the_rename(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(
        folders.os, "fsync", lambda handle: seen.append(Path(f"/proc/self/fd/{handle}").readlink().name)
    )
    _published(tmp_path / "v1")
    *before, after = seen
    (partial,) = (each for each in before if re.fullmatch(r"\.v1\.[0-9a-f]{8}\.partial", each))
    assert sorted(before) == sorted([partial, _FILE, "adapter_config.json", "manifest.json"])
    assert after == tmp_path.name


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1])


def _told(folder, version=2, **digests):
    """Have a manifest tell other hashes of its tensors, and nothing else that is wrong."""
    told = json.loads((folder / "manifest.json").read_text())
    entry = told["files"][_FILE]
    told |= {"version": version, "files": {_FILE: {"size": entry["size"], "tensors": entry["tensors"], **digests}}}
    (folder / "manifest.json").write_text(json.dumps(told))


def _flipped(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("hurt", "message"),
    [
        (lambda folder: _cut(folder / _FILE), "is torn or was changed"),
        (lambda folder: _flipped(folder / _FILE), "is torn or was changed"),
        (lambda folder: (folder / _FILE).unlink(), "is missing"),
        (lambda folder: (folder / "manifest.json").unlink(), "has no manifest.json"),
        (lambda folder: _cut(folder / "manifest.json"), "manifest.json cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text("[]"), "manifest.json cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text("[" * 100_000), "manifest.json cannot be read"),
        (lambda folder: (folder / "manifest.json").write_text('{"version": 3, "files": {}}'), "cannot be read"),
        (lambda folder: _told(folder, version=True), "cannot be read"),
        (lambda folder: _told(folder, md5="00"), "cannot be read"),
        (lambda folder: _told(folder, blake3="00", sha256="00"), "cannot be read"),
        (lambda folder: _told(folder, blake3="00"), "is torn or was changed"),
        (lambda folder: _told(folder, sha256="00"), "is torn or was changed"),
    ],
)
def test_what_is_torn_is_refused(tmp_path, hurt, message):
    folder = _published(tmp_path / "v1")
    hurt(folder)
    with pytest.raises(Refused, match=message):
        tensors.read(folder, _FILE)


@pytest.mark.parametrize("name", ["../stolen", "/etc/passwd", ".hidden", "a/b", ""])
def test_a_manifest_that_names_files_elsewhere_is_refused(tmp_path, name):
    folder = _published(tmp_path / "v1")
    told = json.loads((folder / "manifest.json").read_text())
    told["files"] = {name: told["files"][_FILE]}
    (folder / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(Refused, match="cannot be read"):
        manifest.verify(folder)


def test_tensors_that_the_manifest_does_not_tell_of_are_refused(tmp_path):
    folder = _published(tmp_path / "v1")
    told = json.loads((folder / "manifest.json").read_text())
    told["files"][_FILE]["tensors"]["a"]["shape"] = [3, 2]
    (folder / "manifest.json").write_text(json.dumps(told))
    with pytest.raises(Refused, match="other tensors than its manifest"):
        tensors.read(folder, _FILE)


def test_a_file_that_was_not_published_is_refused(tmp_path):
    with pytest.raises(Refused, match="holds no optimizer"):
        tensors.read(_published(tmp_path / "v1"), "optimizer.safetensors")


_WRITER = """
import pathlib, sys
from muster.sessions.weights import folders, hashes, manifest
folder, value = pathlib.Path(sys.argv[1]), 0
while True:
    value += 1
    data = str(value).encode() * 100_000
    with folders.whole(folder) as partial:
        (partial / "data").write_bytes(data)
        entry = manifest.Entry(len(data), hashes.digest(data))
        manifest.write(partial, manifest.Manifest({"data": entry}, {"value": value}))
    print(value, flush=True)
"""


def test_a_writer_killed_at_any_point_leaves_whole_weights(tmp_path):
    folder = tmp_path / "v"
    for rounds in range(6):
        program = subprocess.Popen([sys.executable, "-c", _WRITER, str(folder)], stdout=subprocess.PIPE)
        for _ in range(3 + 2 * rounds):
            last = int(program.stdout.readline())
        program.send_signal(signal.SIGKILL)
        program.communicate()
        assert manifest.verify(folder).about["value"] >= last
    _published(folder)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["v"]
