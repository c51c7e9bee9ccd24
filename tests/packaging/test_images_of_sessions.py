"""The images of RL sessions at work, as containers with the restrictions of a pod: no cluster, no network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest

from e2e.cluster import node
from e2e.cluster.node.containers import Beside, Container, Volume, Wanted
from e2e.cluster.places import REPOSITORY

pytestmark = pytest.mark.thorough

USER = 65532
NAMES = ("engine", "gateway")
MAKE = "import pathlib, sys; from muster.sessions.demo import tiny; tiny.make(pathlib.Path(sys.argv[1]))"
ENVIRONMENT = "/opt/venv"
SERVE = ("serve", "--root", "/state", "--host", "0.0.0.0")
PYTHONS = tuple(f"--{each}-python={ENVIRONMENT}/bin/python" for each in ("trainer", "sampler"))


@pytest.fixture(scope="module")
def images():
    if lacking := node.missing():
        pytest.skip(f"containers cannot be run on this machine: missing {', '.join(lacking)}")
    return dict(zip(NAMES, node.build(NAMES), strict=True))


@pytest.fixture(scope="module")
def models(images, tmp_path_factory):
    """A folder with a base model, which the image of engines made."""
    stage = Stage(images, tmp_path_factory.mktemp("making"), owned(tmp_path_factory.mktemp("models")))
    said = stage.run("engine", "python", "-c", MAKE, str(stage.base), models=True)
    assert (stage.base / "config.json").exists(), said
    return stage.models


def owned(folder):
    folder.mkdir(exist_ok=True)
    os.chown(folder, USER, USER)
    return folder


class Stage:
    """What containers share: the state of a Gateway, and a base model under the path that it has here."""

    def __init__(self, images, folder, models):
        self.images, self.folder, self.models, self.runs = images, folder, models, 0
        self.state = owned(folder / "state")
        self.base = models / "muster" / "tiny"

    def container(self, name, *arguments, models=False, besides=()):
        self.runs += 1
        own = self.folder / f"container-{self.runs}"
        own.mkdir()
        volumes = (Volume(self.state, "/state", writable=True), Volume(self.models, str(self.models), writable=models))
        # The image of engines has no entry point of its own, and the base here has a shell.
        wanted = Wanted(self.images[name], arguments, volumes, besides, entry=name != "engine")
        return Container(wanted, own)

    def run(self, name, *arguments, code=0, **how):
        """Run a container to its end, and return what it printed."""
        with self.container(name, *arguments, **how) as container:
            said = container.output()
            assert container.wait() == code, said
        return said

    def trained(self, gateway, key):
        """Train from this machine, in the network of the container."""
        python = shutil.which(os.environ.get("MUSTER_SESSIONS_PYTHON", ""))
        assert python, "MUSTER_SESSIONS_PYTHON must name a python that has tinker; `make packaging` does"
        program = REPOSITORY / "tests" / "packaging" / "laptop.py"
        own = {"TINKER_API_KEY": key, "TINKER_TELEMETRY": "0", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(REPOSITORY)}
        done = subprocess.run(
            [*gateway.entered(), python, str(program), "http://127.0.0.1:8080", str(self.base)],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + self.told()
        return json.loads(done.stdout.splitlines()[-1])

    def told(self):
        """Return what the engines wrote."""
        return "\n".join(f"{each}: {each.read_text()[-3000:]}" for each in sorted(self.state.rglob("*.log")))


@pytest.fixture
def stage(images, models, tmp_path):
    return Stage(images, tmp_path, models)


def test_an_image_of_engines_serves_trains_to_a_mean_reward_of_one_and_ends_when_it_is_told(stage):
    learns(stage, "engine", "python", "-m", "muster.sessions.cli", *SERVE)


def test_the_image_of_the_gateway_does_the_same_with_the_environment_of_the_engines_beside_it(stage):
    learns(stage, "gateway", *SERVE, *PYTHONS, besides=[Beside(stage.images["engine"], ENVIRONMENT, ENVIRONMENT)])


def learns(stage, name, *words, **how):
    key = stage.run("gateway", "keys", "create", "team-a", "--root", "/state").strip()
    with stage.container(name, *words, "--base", str(stage.base), **how) as gateway:
        line = gateway.line()
        assert line == "serving the Tinker API on http://0.0.0.0:8080", line
        got = stage.trained(gateway, key)
        assert len(got["rewards"]) == 10
        assert got["rewards"][-1] == 1.0
        assert got["tokens"] > 0
        assert gateway.end() == 0, stage.told()
    assert "team-a" in stage.run("gateway", "ls", "--root", "/state")
    run = got["path"].removeprefix("tinker://").split("/")[0]
    assert got["path"] in stage.run("gateway", "checkpoints", "ls", "--root", "/state", "--run", run)
    owners = {each.stat().st_uid for each in stage.state.rglob("*")}
    assert owners == {USER}


@pytest.mark.parametrize("name", NAMES)
def test_the_bill_of_materials_of_an_image_has_every_package_that_is_pinned_for_it(images, tmp_path, name):
    folder = REPOSITORY / "images"
    program = ("python3", "/images/sbom.py", f"muster-{name}:0.1.0")
    with Container(Wanted(images[name], program, (Volume(folder, "/images"),), entry=False), tmp_path) as container:
        bill = json.loads(container.output())
        assert container.wait() == 0
    assert bill["metadata"]["component"]["name"] == f"muster-{name}"
    there = {each["purl"].partition("?")[0] for each in bill["components"]}
    for line in (folder / name / "requirements.lock").read_text().splitlines()[1:]:
        package, _, version = line.split()[0].partition("==")
        assert f"pkg:pypi/{package}@{version}" in there
    assert any(each.startswith("pkg:deb/debian/libc6@") for each in there)


def test_the_image_of_the_gateway_alone_says_that_it_has_no_engines(stage):
    said = stage.run("gateway", *SERVE, "--base", str(stage.base), code=2)
    assert "--trainer-python: the trainer needs torch, which this interpreter has not" in said
