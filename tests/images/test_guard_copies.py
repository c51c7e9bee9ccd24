"""The init container's program copies the guard where a pod mounts it, for whatever user the training has."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.cluster.places import REPOSITORY
from muster.strategies.launches import guard_additions
from tests.injection import guarded
from tests.support import jobs

PROGRAM = REPOSITORY / "images" / "webhook" / "copy_guard.py"
DOCKERFILE = (REPOSITORY / "images" / "webhook" / "Dockerfile").read_text()


@pytest.fixture
def source(tmp_path):
    """The folder as the image has it."""
    folder = tmp_path / "opt"
    shutil.copytree(REPOSITORY / "images" / "guard", folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROGRAM, folder)
    program = folder / "env-of-image"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    return folder


def run(source, target, umask=0o077):
    command = [sys.executable, "-I", "-S", str(source / PROGRAM.name), str(target)]
    return subprocess.run(command, capture_output=True, text=True, umask=umask, timeout=60, check=False)


def names(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_everything_is_copied_and_everybody_may_read_it(source, tmp_path):
    target = tmp_path / "guard"
    target.mkdir()
    done = run(source, target)
    assert (done.returncode, done.stderr) == (0, "")
    assert names(target) == names(source) | {"env"}
    assert mode(target / "env") == 0o777
    assert mode(target / "env-of-image") == 0o755
    assert (
        mode(target / "muster_guard" / "__init__.py") == 0o644
    )  # written again by the same user where a pod starts anew
    for path in target.rglob("*"):
        assert mode(path) & 0o444 == 0o444, path
        assert path.is_dir() or path.read_bytes() == (source / path.relative_to(target)).read_bytes()


def test_a_second_run_in_the_same_folder_replaces_the_files(source, tmp_path):
    target = tmp_path / "guard"
    target.mkdir()
    assert run(source, target).returncode == 0
    before = (target / "muster_guard" / "__init__.py").read_bytes()
    (target / "env" / "node").write_text("/app")
    again = run(source, target)
    assert (again.returncode, again.stderr) == (0, "")
    assert (target / "muster_guard" / "__init__.py").read_bytes() == before
    assert (target / "env" / "node").read_text() == "/app"


def test_a_folder_that_cannot_be_written_is_told_with_a_way_out(source, tmp_path):
    (tmp_path / "file").touch()
    done = run(source, tmp_path / "file")
    assert done.returncode == 1
    assert str(tmp_path / "file") in done.stderr
    assert "muster.dev/guard: off" in done.stderr


@pytest.mark.skipif(shutil.which("gcc") is None, reason="the Dockerfile brings its compiler; here there is none")
def test_a_program_gets_the_guard_and_keeps_the_search_path_of_its_image(tmp_path):
    """The commands of the Dockerfile and of the init containers, one after the other, in folders of the test."""
    image, target = tmp_path / "image", tmp_path / "guard"
    shutil.copytree(REPOSITORY / "images" / "guard", image, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
    shutil.copy(PROGRAM, image)
    target.mkdir()
    (build,) = re.findall(r"^RUN (gcc .+\n.+)$", DOCKERFILE, re.MULTILINE)
    subprocess.run(build.replace("/opt/muster-guard", str(image)), shell=True, check=True, timeout=60)  # noqa: S602  # the line of the Dockerfile is one of a shell
    assert run(image, target).returncode == 0
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    pod = guarded.pod_of(guarded.decide(jobset, cluster).document)

    def here(text):
        return text.replace(guard_additions.MOUNTED_AT, str(target))

    note = [here(word) for word in guarded.named(pod["initContainers"], "muster-guard-env")["command"]]
    subprocess.run(note, env={"PYTHONPATH": "/app:/lib/x"}, check=True, timeout=60)
    env = {name: here(value) for name, value in jobs.env_of(pod["containers"][0]).items() if value}
    loaded = (
        "import sys, muster_guard; print(muster_guard.__file__, *sys.path[1:4], 'muster_guard.start' in sys.modules)"
    )
    told = subprocess.run(
        [sys.executable, "-c", loaded], env=env, capture_output=True, text=True, timeout=60, check=True
    )
    assert told.stdout.split() == [f"{target}/muster_guard/__init__.py", str(target), "/app", "/lib/x", "True"]


def test_the_image_has_what_the_pods_are_given_commands_for():
    jobset, cluster = guarded.cluster_of(guarded.UNREAD)
    copies, _ = guarded.pod_of(guarded.decide(jobset, cluster).document)["initContainers"]
    folder = str(Path(copies["command"][-2]).parent)
    assert f"COPY images/guard images/webhook/{PROGRAM.name} {folder}/\n" in DOCKERFILE
    assert f"COPY --from=build {folder} {folder}\n" in DOCKERFILE
    assert copies["command"] == ["python3", "-I", "-S", f"{folder}/{PROGRAM.name}", guard_additions.MOUNTED_AT]
    assert re.search(r"^ENV PATH=/opt/muster/bin:", DOCKERFILE, re.MULTILINE)
