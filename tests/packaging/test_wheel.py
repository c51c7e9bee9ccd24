"""The package as people get it: a wheel, installed where there is no checkout, that puts Muster into a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from muster.webhook import kubeyaml
from muster.webhook.cli import commandline
from tests.manifests import bases, files
from tests.packaging import renders

ACTION = bases.ROOT / "actions" / "check"
ROOMS = ("audit", "certs", "front", "kube", "sessions", "strategies", "webhook")
CONTEXT = ("LICENSE", "README.md", "pyproject.toml", "manifests", "muster", *ROOMS)
TLS = ("Secret", "muster-tls")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def pip(*arguments):
    """Run the pip of the tests, which has what a build needs."""
    command = [sys.executable, "-m", "pip", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def copied(names, target):
    """Copy files and folders of the checkout, links as links."""
    for name in names:
        path = bases.ROOT / name
        if path.is_dir():
            shutil.copytree(path, target / name, symlinks=True)
        else:
            shutil.copy(path, target / name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy, since a build leaves folders in its sources."""
    sources, out = tmp_path_factory.mktemp("sources"), tmp_path_factory.mktemp("wheel")
    copied(CONTEXT, sources)
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, sources)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def muster(wheel, tmp_path_factory):
    """A function that runs the installed `muster` in an empty folder."""
    home, empty = tmp_path_factory.mktemp("installed"), tmp_path_factory.mktemp("empty")
    venv.create(home, symlinks=True)
    pip("--python", home / "bin" / "python", "install", "--no-deps", "--no-index", wheel)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    # What Muster depends on; .pth files that lie there, as that of an editable Muster, are not read.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}  # kubectl keeps there what it has seen

    def run(*arguments):
        return subprocess.run(
            [str(home / "bin" / "muster"), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=empty,
            env=environment,
        )

    run.home = home
    return run


@pytest.fixture(scope="module")
def plain(wheel, tmp_path_factory):
    """An environment of its own with Muster, what it depends on, and none of its extras."""
    home = tmp_path_factory.mktemp("plain")
    venv.create(home, symlinks=True)
    pins = bases.ROOT / "requirements" / "run.txt"
    pip("--python", home / "bin" / "python", "install", "--only-binary", ":all:", "--constraint", pins, wheel)
    return home


def alone(home, *arguments, stdin=""):
    """Run the installed `muster`, which finds nothing but its own environment."""
    command = [str(home / "bin" / "muster"), *map(str, arguments)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    return subprocess.run(
        command, input=stdin, capture_output=True, text=True, timeout=120, check=False, cwd=home, env=environment
    )


def test_a_plain_install_is_small(plain):
    """With the bytecode that pip makes."""
    files_ = (path for path in plain.rglob("*") if path.is_file() and not path.is_symlink())
    blocks = sum(path.stat().st_size for path in files_)
    assert blocks <= 60_000_000, f"{blocks / 1e6:.1f} MB"


def test_a_plain_install_does_all_that_works_on_files(plain):
    job = (bases.ROOT / "manifests" / "examples" / "01-trl-sft-two-nodes.yaml").read_text(encoding="utf-8")
    for arguments, word in (
        (["check", "-"], ""),
        (["check", "-o", "sarif", "-"], '"2.1.0"'),
        (["check", "-o", "junit", "-"], "testsuites"),
        (["explain", "-"], "right: "),
        (["render", "-o", "diff", "-"], "torchrun"),
        (["rule", "trl/launch"], "trl/launch"),
        (["strategies"], "torchtune"),
        (["demo"], "first-sft"),
        (["--version"], "muster 0."),
    ):
        done = alone(plain, *arguments, stdin=job)
        assert (done.returncode, word in done.stdout) == (0, True), (arguments, done.stderr)
    config = plain / "muster.yaml"
    config.write_text("mode: warn\n", encoding="utf-8")
    assert alone(plain, "check", "--config", config, "-", stdin=job).returncode == 0


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["doctor"], ["claims"], ["audit", "verify", "--anchors-from-cluster", "log"]],
    ids=" ".join,
)
def test_a_plain_install_reads_clusters_too(plain, arguments):
    (plain / "log").write_text("", encoding="utf-8")
    done = alone(plain, *arguments)
    assert done.returncode == 2
    assert "there is no kubeconfig at" in done.stderr.splitlines()[-1]


def test_the_action_installs_muster_from_its_own_repository(tmp_path):
    repository = tmp_path / "repository"
    repository.mkdir()
    copied((*CONTEXT, "actions"), repository)
    action = kubeyaml.load((ACTION / "action.yml").read_text(encoding="utf-8"))
    step = next(each for each in action["runs"]["steps"] if each["name"] == "Install Muster")
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "RUNNER_TEMP": str(tmp_path),
        "GITHUB_ACTION_PATH": str(repository / "actions" / "check"),
    }
    done = subprocess.run(
        [str(shutil.which("bash")), "-eo", "pipefail", "-c", step["run"]], env=environment, check=False, timeout=300
    )
    assert done.returncode == 0
    assert alone(tmp_path / "muster", "--version").stdout.startswith("muster ")


def test_kubectl_finds_its_plugin(plain, kubectl):
    environment = {"PATH": f"{plain / 'bin'}:{os.environ['PATH']}", "HOME": str(plain)}
    done = subprocess.run(
        [str(kubectl), "muster", "check", "--help"], capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.startswith("usage: kubectl muster check "), done.stderr


@pytest.fixture
def cluster(api):
    """A cluster with Trainer and JobSet, in which Deployments are served as soon as they are applied."""
    for name in ("trainjobs.trainer.kubeflow.org", "jobsets.jobset.x-k8s.io"):
        metadata = {"name": name}
        kind = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
        api.objects[f"{CRDS}/{name}"] = {**kind, "metadata": metadata}

    def serve(method, path, body):
        if method == "PATCH" and body["kind"] == "Deployment":
            count = body["spec"]["replicas"]
            status = {"replicas": count, "updatedReplicas": count, "availableReplicas": count}
            api.objects[path]["status"] = status

    api.seen = serve
    return api


def _name(document):
    return document["kind"], document["metadata"]["name"]


def names(cluster):
    """Kind and name of what was put into the cluster."""
    there = {"CustomResourceDefinition", "kube-system"}
    return {_name(each) for each in cluster.objects.values() if not there & set(_name(each))}


def test_it_holds_the_manifests_that_the_installer_applies_and_the_doctor_expects(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = {name.partition("/share/muster/")[2] for name in archive.namelist()} - {""}
    base = [*bases.FOLDER.glob("*.yaml"), *files.FOLDER.glob("overlays/*/rbac-*.yaml")]
    runtimes = (files.FOLDER / "runtimes").glob("*.yaml")
    assert packed == {f"base/{path.name}" for path in base} | {f"runtimes/{path.name}" for path in runtimes}


def test_it_holds_each_module_and_each_file_of_data_once_and_no_package_but_muster(wheel):
    with zipfile.ZipFile(wheel) as archive:
        packed = [name for name in archive.namelist() if not name.startswith("muster_admission-")]
    listed = subprocess.run(
        [str(shutil.which("git")), "ls-files", "muster", *ROOMS], cwd=bases.ROOT, capture_output=True, check=True
    )
    there = {name for name in listed.stdout.decode().split() if (bases.ROOT / name).is_file()}
    assert sorted(packed) == sorted(f"muster/{name.removeprefix('muster/')}" for name in there)


@pytest.mark.parametrize("kind", commandline.table().commands["init"].arguments["kind"]["choices"])
def test_where_it_is_installed_it_writes_jobs_to_begin_with(muster, kind):
    written = muster("init", kind)
    assert (written.returncode, written.stderr) == (0, "")
    assert f"\n  name: {kind}\n" in written.stdout


@pytest.mark.thorough  # tests/cli/test_new_strategy.py does it without an environment of its own
def test_where_it_is_installed_a_new_strategy_is_put_beside_it_and_its_tests_pass(muster, tmp_path):
    python, folder, out = muster.home / "bin" / "python", tmp_path / "acme", tmp_path / "wheels"
    written = muster("strategies", "new", "acme", "--folder", folder)
    assert written.returncode == 0, written.stderr
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", out, folder)
    pip("--python", python, "install", "--no-deps", "--no-index", *out.iterdir())
    plain = ["-q", "-p", "no:cacheprovider", "-o", "asyncio_default_fixture_loop_scope=function"]
    done = subprocess.run(
        [python, "-m", "pytest", *plain], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, "7 passed" in done.stdout) == (0, True), done.stdout + done.stderr
    assert "muster-strategy-acme 0.1.0" in " ".join(muster("strategies").stdout.split())


def test_where_it_is_installed_it_installs_upgrades_and_uninstalls_muster(muster, kubectl, cluster, tmp_path):
    assert muster("install", "--help").stdout.startswith("usage: muster install ")
    options = ("--kubectl", kubectl, "--kubeconfig", cluster.kubeconfig(tmp_path / "kubeconfig"))
    refused = muster("upgrade", *options)
    assert (refused.returncode, cluster.done) == (2, []), refused.stderr
    installed = muster("install", *options, "--replicas", 2)
    assert installed.returncode == 0, installed.stderr
    assert [path.split("/")[-2] for _, path in cluster.done[-2:]] == [f"{kind.lower()}s" for kind in renders.WEBHOOKS]
    assert names(cluster) == {_name(each) for each in renders.kustomize(kubectl, "base")} | {TLS}
    upgraded = muster("upgrade", *options)
    assert upgraded.returncode == 0, upgraded.stderr
    (deployment,) = (each for each in cluster.objects.values() if each["kind"] == "Deployment")
    assert deployment["spec"]["replicas"] == 2
    removed = muster("uninstall", *options)
    assert removed.returncode == 0, removed.stderr
    assert names(cluster) == {TLS}  # a real cluster deletes it with its namespace
