"""A version is read as it was written, or refused with a reason; and nothing outside of the folder is read."""

import contextlib
import errno
import json
import os
import resource
import shutil
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as drawn

from muster_weights import folders, manifests, names, readings
from muster_weights.refusals import Missing, Refused
from tests.weights.versions import RUN, place, published, tensors


@contextlib.contextmanager
def no_room():
    """No file may be longer than a byte, as on a full volume."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_is_published_is_read_back_in_the_same_bytes(tmp_path):
    told = published(tmp_path, value=2.5)

    found = readings.verify(tmp_path, told)

    assert [(each.name, each.shape) for each in found.manifest.tensors] == [
        ("embed.weight", (2, 3)),
        ("head.weight", (3,)),
    ]
    for each in found.manifest.tensors:
        data = found.data[each.offset : each.offset + manifests.size_of(each)]
        assert set(struct.unpack(f"{len(data) // 4}f", data)) == {2.5}
    assert found.unchanged()
    found.close()


def test_tensors_of_all_sizes_are_read_back_and_their_memory_may_be_used_again_when_the_next_is_asked_for(tmp_path):
    sizes = [0, 1, 63, 200_000, 256 << 10, (256 << 10) - 1, 900_000, 1 << 20, (1 << 20) + 1, 33 << 20, 7]
    memory = bytearray(max(sizes))

    def reused():
        for number, size in enumerate(sizes):
            memory[:size] = bytes([number + 1]) * size
            yield f"t{number}", "uint8", (size,), memoryview(memory)[:size]
            memory[:] = bytes(len(memory))

    found = readings.verify(tmp_path, folders.publish(tmp_path, RUN, 1, reused()))

    assert [each.shape for each in found.manifest.tensors] == [(size,) for size in sizes]
    for number, each in enumerate(found.manifest.tensors):
        data = found.data[each.offset : each.offset + manifests.size_of(each)]
        assert data.count(bytes([number + 1])) == sizes[number]
        assert each.offset % 64 == 0
    found.close()


def test_a_version_that_is_being_written_cannot_be_seen(tmp_path):
    def looking():
        for each in tensors():
            assert not list(tmp_path.glob(f"{RUN}/v*"))
            yield each

    folders.publish(tmp_path, RUN, 1, looking())
    assert [each.name for each in tmp_path.glob(f"{RUN}/*")] == ["v000000001"]


def test_a_writer_that_fails_leaves_nothing(tmp_path):
    def failing():
        yield next(tensors())
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(Refused, match="is full: extend the volume"):
        folders.publish(tmp_path, RUN, 1, failing())
    assert list((tmp_path / RUN).iterdir()) == []


@pytest.mark.parametrize("size", [100, 33 << 20])
def test_a_file_that_does_not_fit_is_told_and_leaves_nothing(tmp_path, size):
    with no_room(), pytest.raises(Refused, match="is full: extend the volume"):
        folders.publish(tmp_path, RUN, 1, [("one", "uint8", (size,), memoryview(bytes(size)))])
    assert list((tmp_path / RUN).iterdir()) == []


def test_a_note_that_does_not_fit_is_told_and_the_one_before_stays(tmp_path):
    first, second = published(tmp_path), published(tmp_path, version=2)
    folders.announce(tmp_path, first)
    with no_room(), pytest.raises(Refused, match="is full: extend the volume"):
        folders.announce(tmp_path, second)
    assert readings.current(tmp_path) == first
    assert sorted(each.name for each in tmp_path.iterdir()) == [names.CURRENT, RUN]


@pytest.mark.parametrize("file", ["weights.bin", "manifest.json"])
def test_a_torn_file_is_refused(tmp_path, file):
    told = published(tmp_path)
    path = place(tmp_path, told) / file
    path.write_bytes(path.read_bytes()[:-1])

    with pytest.raises(Refused, match=r"torn|not the one that the trainer wrote"):
        readings.verify(tmp_path, told)


def test_one_changed_bit_is_refused(tmp_path):
    told = published(tmp_path)
    path = place(tmp_path, told) / "weights.bin"
    path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:])

    with pytest.raises(Refused, match="its hash differs"):
        readings.verify(tmp_path, told)


def test_a_whole_version_of_somebody_else_in_its_place_is_refused(tmp_path):
    told = published(tmp_path / "ours")
    other = published(tmp_path / "theirs", value=9.0)
    shutil.rmtree(place(tmp_path / "ours", told))
    place(tmp_path / "theirs", other).rename(place(tmp_path / "ours", told))

    with pytest.raises(Refused, match="not the one that the trainer wrote"):
        readings.verify(tmp_path / "ours", told)


def test_a_file_that_is_written_into_after_it_was_verified_is_noticed(tmp_path):
    told = published(tmp_path)
    found = readings.verify(tmp_path, told)
    with (place(tmp_path, told) / "weights.bin").open("r+b") as file:
        file.write(b"x")
        os.utime(file.fileno(), (1, 1))

    assert not found.unchanged()
    found.close()


@pytest.mark.parametrize("what", ["run", "version", "weights.bin", "manifest.json"])
def test_no_link_is_followed(tmp_path, what):
    told = published(tmp_path / "elsewhere")
    shutil.copytree(tmp_path / "elsewhere", tmp_path / "root")
    home = tmp_path / "root" / told.run
    link = {"run": home, "version": home / "v000000001"}.get(what, home / "v000000001" / what)
    target = tmp_path / "elsewhere" / link.relative_to(tmp_path / "root")
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(target)

    with pytest.raises(Refused, match="links are not followed"):
        readings.verify(tmp_path / "root", told)


def test_a_pipe_in_the_place_of_a_file_is_refused_and_not_waited_for(tmp_path):
    told = published(tmp_path)
    path = place(tmp_path, told) / "weights.bin"
    path.unlink()
    os.mkfifo(path)

    with pytest.raises(Refused, match="is not a plain file"):
        readings.verify(tmp_path, told)


def test_a_version_that_cannot_be_seen_yet_is_missing(tmp_path):
    with pytest.raises(Missing):
        readings.verify(tmp_path, names.Told(RUN, 1, "0" * 64))
    with pytest.raises(Missing, match="mount the shared volume"):
        readings.verify(tmp_path / "nowhere", names.Told(RUN, 1, "0" * 64))


@pytest.mark.parametrize("run", ["..", "../etc", "/etc", "a/b", ".", "", "-a", "a" * 64, "A", "a\x00", "a\n", None, 3])
def test_what_is_no_name_of_a_run_is_refused(run):
    with pytest.raises(Refused, match="is not a name of a run"):
        names.told({"run": run, "version": 1, "digest": "0" * 64})


@pytest.mark.parametrize("version", [0, -1, 10**9, True, 1.0, "1", None])
def test_what_is_no_number_of_a_version_is_refused(version):
    with pytest.raises(Refused, match="is not a version"):
        names.told({"run": RUN, "version": version, "digest": "0" * 64})


def test_a_manifest_that_is_too_large_is_not_read(tmp_path):
    told = published(tmp_path)
    with (place(tmp_path, told) / "manifest.json").open("r+b") as file:
        file.truncate(manifests.MOST + 1)

    with pytest.raises(Refused, match="has over"):
        readings.verify(tmp_path, told)


def _hurt(manifest, path, value):
    *steps, last = path
    for step in steps:
        manifest = manifest[step]
    manifest[last] = value


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), "muster.dev/weights/v2"),
        (("size",), 0),
        (("size",), 10**18),
        (("hash",), "md5"),
        (("value",), "0"),
        (("tensors",), []),
        (("tensors", 0, "name"), "head.weight"),
        (("tensors", 0, "dtype"), "object"),
        (("tensors", 0, "shape"), [1 << 40, 1 << 40]),
        (("tensors", 0, "shape"), [-2, -3]),
        (("tensors", 0, "shape"), [True, 6]),
        (("tensors", 1, "offset"), 0),
        (("tensors", 1, "offset"), 63),
        (("tensors", 1, "offset"), 1 << 30),
        (("tensors", 1), None),
        (("run",), "../a"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_refused(tmp_path, path, value):
    told = published(tmp_path)
    manifest = json.loads((place(tmp_path, told) / "manifest.json").read_bytes())
    _hurt(manifest, path, value)

    with pytest.raises(Refused):
        manifests.parse(json.dumps(manifest).encode())


@given(drawn.binary(max_size=200) | drawn.text().map(str.encode))
def test_whatever_is_in_a_manifest_it_is_read_or_refused(data):
    with pytest.raises(Refused):
        manifests.parse(data)


def test_a_manifest_that_is_nested_without_end_is_refused():
    with pytest.raises(Refused):
        manifests.parse(b"[" * 200_000)


def test_the_newest_versions_stay_and_the_half_written_go(tmp_path):
    for version in range(1, 6):
        published(tmp_path, version)
    (tmp_path / RUN / ".v000000006-dead").mkdir()

    folders.prune(tmp_path, RUN, 2)

    assert sorted(each.name for each in (tmp_path / RUN).iterdir()) == ["v000000004", "v000000005"]


def test_what_is_served_is_noted_and_goes_with_its_run_only(tmp_path):
    assert readings.current(tmp_path) is None
    first, second = published(tmp_path), published(tmp_path, run="run-b")
    folders.announce(tmp_path, first)
    folders.announce(tmp_path, second)
    assert readings.current(tmp_path) == second

    folders.remove(tmp_path, first.run)
    assert readings.current(tmp_path) == second
    folders.remove(tmp_path, second.run)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("note", [b"", b"[]", b"{", b'{"run": "../x", "version": 1, "digest": ""}', b"[" * 4000])
def test_a_note_that_is_none_is_refused(tmp_path, note):
    (tmp_path / "current.json").write_bytes(note)
    with pytest.raises(Refused, match="remove it"):
        readings.current(tmp_path)
