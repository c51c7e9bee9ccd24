"""A disk that is full in the middle of a run: nothing that was answered is lost, and it goes on when there is room."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import threading

import httpx
import pytest

from tests.sessions import errands
from tests.sessions.gateways import Gateway

AWAY = "the journal does not answer at the moment; send this again"
BURSTS = {0, 4, 9}
"""Those that save no weights: such a request fails while the disk is full, with the reason."""


class Disk:
    """A file system of 16 MB, which is full when it is told to be."""

    def __init__(self, folder):
        self.folder = folder
        mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", folder]
        if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
            pytest.skip("no file system can be mounted here; the bound of a process is tested everywhere")

    def begin(self, _gateway):
        with contextlib.suppress(OSError), (self.folder / "ballast").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)

    def end(self, _gateway):
        (self.folder / "ballast").unlink()

    def close(self):
        subprocess.run(["umount", "--lazy", self.folder], check=True)  # noqa: S607  # of the system, wherever it is


class Bound:
    """A bound of files of the Gateway, beyond which a write fails as on a disk with a quota."""

    def __init__(self, folder):
        self.folder = folder

    def begin(self, gateway):
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (1, resource.RLIM_INFINITY))

    def end(self, gateway):
        resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def close(self):
        pass


@pytest.fixture(params=[Disk, Bound])
def disk(tmp_path, request):
    (tmp_path / "disk").mkdir()
    made = request.param(tmp_path / "disk")
    yield made
    made.close()


@pytest.fixture
def gateway(disk, tmp_path):
    (tmp_path / "log").touch()
    (disk.folder / "gateway-one.log").symlink_to(tmp_path / "log")
    with Gateway(disk.folder) as made:
        yield made


class Filler:
    """Has the disk full from a moment on until a request was refused for it, in some bursts."""

    def __init__(self, disk, gateway):
        self._disk, self._gateway, self._thread = disk, gateway, None
        self._bursts = set(BURSTS)
        self.answered, self.refused = [], []

    def __call__(self, burst, share):
        if burst in self._bursts and share >= 0.5:
            self._bursts.remove(burst)
            self._disk.begin(self._gateway)
            self._thread = threading.Thread(target=self._until_refused)
            self._thread.start()
        elif share == 1 and self._thread is not None:
            self._thread.join()

    def _until_refused(self):
        asked = {"tags": [], "user_metadata": {"large": "x" * 20_000}, "sdk_version": "0.38.0"}
        with httpx.Client(base_url=self._gateway.url, headers={"X-API-Key": self._gateway.key}, timeout=60) as http:
            while (answer := http.post("/api/v1/create_session", json=asked)).status_code == 200:
                self.answered.append(answer.json()["session_id"])
            self.refused.append((answer.status_code, answer.json()["detail"]))
            assert http.get("/api/v1/healthz").status_code == 200  # a new process would have no more room
        self._disk.end(self._gateway)


def test_a_run_over_a_disk_that_is_full_now_and_then_has_the_answers_of_one_that_is_not(gateway, disk, tmp_path):
    undisturbed = errands.run(gateway)
    filler = Filler(disk, gateway)
    assert errands.run(gateway, filler) == undisturbed
    assert filler.refused == [(503, AWAY)] * len(BURSTS)
    gateway.kill()
    gateway.start()
    with httpx.Client(base_url=gateway.url, headers={"X-API-Key": gateway.key}, timeout=60) as http:
        kept = http.get("/api/v1/sessions", params={"limit": 500}).json()["sessions"]
    assert set(filler.answered) <= set(kept)
    assert "Traceback" not in (tmp_path / "log").read_text()


@pytest.mark.parametrize("disk", [Disk], indirect=True)
def test_no_part_of_a_backup_stays_on_a_disk_that_is_full(gateway, disk):
    disk.begin(gateway)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        gateway.run("backup", str(disk.folder / "backup.sqlite"))
    assert (failed.value.returncode, failed.value.stderr.count("\n")) == (2, 1)
    assert "full" in failed.value.stderr
    disk.end(gateway)
    assert [each.name for each in disk.folder.iterdir() if "backup" in each.name] == []
