"""What up.sh and down.sh ask of kind, docker and kubectl, in which order, and what they say when one is missing.

That kind itself takes what is asked of it is shown in tests/packaging/test_kind.py.
"""

from __future__ import annotations

import shlex
import shutil
import stat
import sys

import pytest

from e2e.cluster.node import images
from e2e.cluster.places import REPOSITORY
from e2e.kind import __main__ as kind
from tests.support import recorders

UP, DOWN = (REPOSITORY / "e2e" / "kind" / name for name in ("up.sh", "down.sh"))
CONFIG = str(REPOSITORY / "e2e" / "kind" / "config.yaml")


class Scripts:
    """The two scripts, with programs that do nothing; the Python is real where it only prints names."""

    def __init__(self, folder):
        self.state = folder / "state"
        self.kubeconfig = str(self.state / "kubeconfig")
        (folder / "edge").mkdir()
        self.programs = recorders.Programs(folder / "edge")
        self.programs.add("kind")
        self.programs.add("docker")
        self.programs.add("kubectl")
        real = shlex.quote(sys.executable)
        self.python = self.programs.add("python", f'case "$3" in images) exec {real} "$@";; esac')

    def up(self, *arguments, folder=None, **environment):
        return self._run(UP, arguments, folder, environment)

    def down(self, *arguments, folder=None, **environment):
        return self._run(DOWN, arguments, folder, environment)

    def _run(self, script, arguments, folder, environment):
        chosen = {"STATE": str(self.state), "PYTHON": str(self.python), **environment}
        return self.programs.run("bash", script, *arguments, environment=chosen, folder=folder)

    @property
    def asked(self):
        """The first words of each call."""
        return [" ".join(call[:3]) for call in self.programs.calls]

    def call(self, *words):
        """The only call that begins so."""
        (found,) = (call for call in self.programs.calls if call[: len(words)] == list(words))
        return found


@pytest.fixture
def scripts(tmp_path):
    return Scripts(tmp_path)


def test_a_new_cluster_is_made_then_gets_the_images_then_everything_else(scripts):
    outcome = scripts.up()

    assert outcome.returncode == 0, outcome.stderr
    assert scripts.asked == [
        "docker info",
        "python -m e2e.kind",
        "kind get clusters",
        "kind create cluster",
        "docker build --file",
        "docker build --file",
        "kind load docker-image",
        "python -m e2e.kind",
    ]
    assert scripts.call("kind", "create")[3:] == [
        *("--name", "muster", "--config", CONFIG, "--kubeconfig", scripts.kubeconfig, "--wait", "120s")
    ]
    assert scripts.programs.calls[-1][3:] == ["install", "--state", str(scripts.state)]


def test_the_images_that_are_built_are_those_that_are_loaded_and_installed(scripts):
    assert scripts.up("mine").returncode == 0

    built = [call[call.index("--tag") + 1] for call in scripts.programs.calls if call[:2] == ["docker", "build"]]
    assert built == [images.MUSTER, images.PROBE]
    assert scripts.call("kind", "load")[3:] == ["--name", "mine", *built]
    for call in (call for call in scripts.programs.calls if call[:2] == ["docker", "build"]):
        assert (REPOSITORY / call[3]).is_file()
        assert (REPOSITORY / call[-1]).is_dir()


def test_people_are_told_how_to_go_on_with_this_cluster(scripts):
    told = scripts.up("mine").stdout

    assert f"export KUBECONFIG={scripts.kubeconfig}\n" in told
    assert f"KUBECONFIG={scripts.kubeconfig} make e2e OWN=1" in told
    assert f"STATE={scripts.state} e2e/kind/down.sh mine" in told


def test_the_version_of_kubernetes_can_be_chosen(scripts):
    assert scripts.up(NODE_IMAGE="kindest/node:v1.36.1").returncode == 0
    assert scripts.call("kind", "create")[-2:] == ["--image", "kindest/node:v1.36.1"]


def test_a_cluster_that_is_there_is_kept_and_its_pods_take_the_new_image(scripts):
    scripts.programs.add("kind", 'case "$1" in get) printf "%s\\n" other muster yet-another;; esac')

    outcome = scripts.up()

    assert outcome.returncode == 0, outcome.stderr
    assert scripts.asked[2:4] == ["kind get clusters", "kind export kubeconfig"]
    assert "kind create cluster" not in scripts.asked
    restart, status = scripts.programs.calls[-2:]
    assert restart[1:3] == status[1:3] == ["--kubeconfig", scripts.kubeconfig]
    assert restart[-3:] == ["rollout", "restart", "deployment/muster"]
    assert status[5:8] == ["rollout", "status", "deployment/muster"]


def test_a_cluster_whose_name_only_holds_this_one_is_another(scripts):
    scripts.programs.add("kind", 'case "$1" in get) echo muster-2;; esac')
    assert scripts.up().returncode == 0
    assert "kind create cluster" in scripts.asked


@pytest.mark.parametrize("name", ["kind", "docker", "kubectl"])
def test_a_missing_program_is_named_before_anything_is_done(scripts, name):
    scripts.programs.remove(name)

    outcome = scripts.up()

    assert (outcome.returncode, scripts.asked) == (2, [])
    assert outcome.stderr.startswith(f"muster: {name} is missing: ")
    assert not scripts.state.exists()


def test_an_engine_that_does_not_answer_is_named_before_anything_is_done(scripts):
    scripts.programs.add("docker", "exit 1")

    outcome = scripts.up()

    assert (outcome.returncode, scripts.asked) == (2, ["docker info"])
    assert outcome.stderr == "muster: docker is installed, but its engine does not answer\n"


def test_a_missing_python_is_named_with_the_way_to_get_one(scripts, tmp_path):
    outcome = scripts.up(PYTHON=str(tmp_path / "none"))

    assert (outcome.returncode, scripts.asked) == (2, ["docker info"])
    assert outcome.stderr == f"muster: {tmp_path}/none is missing: run 'make test-fast' once, or set PYTHON\n"


@pytest.mark.parametrize(
    ("program", "then", "last"),
    [
        ("kind", 'test "$1" != create', "kind create cluster"),
        ("docker", 'test "$1" != build', "docker build --file"),
        ("kind", 'test "$1" != load', "kind load docker-image"),
    ],
    ids=["no cluster", "no image", "no image on the nodes"],
)
def test_what_fails_is_the_last_thing_that_is_done(scripts, program, then, last):
    scripts.programs.add(program, then)

    outcome = scripts.up()

    assert outcome.returncode != 0
    assert scripts.asked[-1] == last
    assert "the cluster is up" not in outcome.stdout


def test_the_folder_of_the_kubeconfig_is_for_its_owner_alone(scripts):
    scripts.up()
    assert stat.S_IMODE(scripts.state.stat().st_mode) == 0o700


def test_a_relative_folder_is_one_beside_the_caller(scripts, tmp_path):
    (tmp_path / "elsewhere").mkdir()

    outcome = scripts.up(folder=tmp_path / "elsewhere", STATE="mine")

    assert outcome.returncode == 0, outcome.stderr
    assert scripts.call("kind", "create")[8] == str(tmp_path / "elsewhere" / "mine" / "kubeconfig")
    assert (tmp_path / "elsewhere" / "mine").is_dir()


def test_without_a_folder_each_name_has_its_own_in_the_cache(scripts, tmp_path):
    assert scripts.up("mine", STATE="", MUSTER_CACHE=str(tmp_path / "cache")).returncode == 0
    assert scripts.call("kind", "create")[8] == str(tmp_path / "cache" / "kind" / "mine" / "kubeconfig")


def test_down_ends_the_cluster_and_removes_what_up_made(scripts):
    scripts.up("mine")
    for name in ("kubeconfig", "env"):
        (scripts.state / name).touch()
    (scripts.state / "upstream" / "trainer").mkdir(parents=True)

    outcome = scripts.down("mine")

    assert (outcome.returncode, outcome.stderr) == (0, "")
    assert scripts.programs.calls[-1] == [
        *("kind", "delete", "cluster", "--name", "mine", "--kubeconfig", scripts.kubeconfig)
    ]
    assert not scripts.state.exists()


def test_down_leaves_what_is_not_of_up_alone(scripts):
    scripts.up()
    (scripts.state / "thesis.txt").write_text("years of work")

    assert scripts.down().returncode == 0
    assert (scripts.state / "thesis.txt").exists()


def test_down_keeps_the_kubeconfig_of_a_cluster_that_could_not_be_ended(scripts):
    scripts.up()
    (scripts.state / "kubeconfig").touch()
    scripts.programs.add("kind", "exit 1")

    assert scripts.down().returncode == 1
    assert (scripts.state / "kubeconfig").exists()


def test_down_names_a_missing_kind(scripts):
    scripts.programs.remove("kind")
    outcome = scripts.down()
    assert (outcome.returncode, outcome.stderr) == (2, "muster: kind is missing\n")


def test_an_installation_names_a_missing_kubectl(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert kind.main(["install", "--state", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "muster: kubectl is not on PATH; install it\n"


def test_an_installation_names_a_missing_cluster(scripts, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", scripts.programs.path)
    assert shutil.which("kubectl")
    assert kind.main(["install", "--state", str(tmp_path)]) == 2
    message = f"muster: {tmp_path}/kubeconfig: this file does not exist; e2e/kind/up.sh makes it"
    assert message in capsys.readouterr().err
