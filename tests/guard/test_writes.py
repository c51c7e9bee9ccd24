"""Files that two nodes have saved, by what each of them sees."""

import os
from types import SimpleNamespace

import pytest

from muster_guard import writes


class Store:
    """As a store of torch in one process."""

    def __init__(self):
        self.values = {}

    def compare_set(self, key, expected, value):
        if self.values.get(key, "") == expected:
            self.values[key] = value
        return self.values[key].encode()

    def add(self, key, number):
        self.values[key] = self.values.get(key, 0) + number
        return self.values[key]


@pytest.fixture
def save(monkeypatch):
    """Save a file as torch does."""
    monkeypatch.setattr(writes, "_paths", {})
    monkeypatch.setattr(writes, "_shared", set())
    module = SimpleNamespace(
        __name__="torch", save=lambda value, f: f.write(value) if hasattr(f, "write") else f.write_bytes(value)
    )
    writes.watch(module, "save", 1, "f")
    return module.save


def test_a_file_that_another_node_sees_too_is_told_once(save, tmp_path):
    store = Store()
    save(b"weights", tmp_path / "model.pt")

    assert writes.look(store, "one") is None
    assert writes.look(store, "one") is None
    assert writes.look(store, "other") == str(tmp_path / "model.pt")
    assert writes.look(store, "other") is None
    assert store.values["muster/files"] == 1


def test_files_of_one_path_on_two_disks_are_two_files(save, tmp_path):
    store = Store()
    save(b"weights", f=tmp_path / "model.pt")
    assert writes.look(store, "one") is None
    seen = (tmp_path / "model.pt").stat()
    os.utime(tmp_path / "model.pt", ns=(seen.st_atime_ns, seen.st_mtime_ns + 1))  # as the other disk has it

    assert writes.look(store, "other") is None


def test_times_of_whole_seconds_prove_nothing(save, tmp_path):
    store = Store()
    save(b"weights", tmp_path / "model.pt")
    os.utime(tmp_path / "model.pt", (5, 5))

    assert writes.look(store, "one") is None
    assert writes.look(store, "other") is None


def test_a_file_that_was_opened_before_is_known_by_its_name_and_memory_is_not(save, tmp_path):
    import io  # noqa: PLC0415  # beside what it is for

    store = Store()
    with (tmp_path / "opened.pt").open("wb") as file:
        save(b"weights", file)
    save(b"weights", io.BytesIO())

    assert writes.look(store, "one") is None
    assert writes.look(store, "other") == str(tmp_path / "opened.pt")


def test_a_file_that_is_gone_is_left_out(save, tmp_path):
    save(b"weights", tmp_path / "model.pt")
    (tmp_path / "model.pt").unlink()

    assert writes.look(Store(), "one") is None


def test_only_the_newest_files_are_looked_at(save, tmp_path):
    for number in range(40):
        save(b"weights", tmp_path / f"{number}.pt")

    assert list(writes._paths) == [str(tmp_path / f"{number}.pt") for number in range(8, 40)]
