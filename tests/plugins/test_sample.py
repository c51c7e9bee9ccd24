"""The package in `examples/`: installed as a user would, found by its entry point, used by a whole decision."""

from __future__ import annotations

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from muster.strategies.frameworks import builtin
from muster.webhook.admission.policies import Policy
from tests.support import admissions, jobs, upstream

SAMPLE = Path(__file__).parents[2] / "examples" / "muster-strategy-axolotl"
PACKAGE = "muster_strategy_axolotl"
# What pip runs for such a package, short of the archive in between: that needs nothing but setuptools, of any age.
INSTALL = ["-c", "import setuptools; setuptools.setup()", "--quiet", "build_py", "egg_info"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with the installed package, on the path."""
    source, target = tmp_path_factory.mktemp("source") / "sample", tmp_path_factory.mktemp("site")
    shutil.copytree(SAMPLE, source, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "build"))
    command = [sys.executable, *INSTALL[:4], "--build-lib", str(target), INSTALL[4], "--egg-base", str(target)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=60)
    sys.path.insert(0, str(target))
    importlib.invalidate_caches()
    yield target
    sys.path.remove(str(target))
    for module in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[module]


@pytest.fixture(scope="module")
def policy(site):
    return Policy(registry=builtin.load())


RUNTIME = jobs.make_runtime("axolotl", framework="axolotl", container={"command": ["axolotl", "train", "runtime.yaml"]})


def decide(policy, phase="mutate", document=None, **trainer):
    return admissions.decide(
        document or jobs.make_trainjob(runtime="axolotl", **trainer), RUNTIME, phase=phase, policy=policy
    )


def trainer_of(decision):
    return decision.document["spec"]["trainer"]


def test_it_is_found_by_its_entry_point_with_name_and_version(policy):
    found = policy.registry.get("axolotl")
    assert str(found) == "axolotl 1 (muster-strategy-axolotl 0.1.0)"
    assert not found.in_tree


def test_without_the_package_nobody_serves_the_framework():
    decision = decide(admissions.POLICY, command=["axolotl", "train", "c.yaml"], numNodes=2)
    assert (decision.strategy.strategy.framework, decision.verdict) == ("default", "unchanged")


@pytest.mark.parametrize(
    ("command", "args", "wanted"),
    [
        (["axolotl", "train", "c.yaml"], None, {"command": ["axolotl", "train", "c.yaml", "--launcher", "torchrun"]}),
        (["axolotl", "train"], ["c.yaml"], {"args": ["c.yaml", "--launcher", "torchrun"]}),
        (
            ["python", "-m", "axolotl.cli.main", "train"],
            ["c.yaml", "--debug"],
            {"args": ["c.yaml", "--debug", "--launcher", "torchrun"]},
        ),
        (None, None, {"command": ["axolotl", "train", "runtime.yaml", "--launcher", "torchrun"]}),
        (["axolotl", "train", "c.yaml", "--launcher", "torchrun"], None, {}),
        (["axolotl", "train", "c.yaml", "--launcher=torchrun"], None, {}),
        (["axolotl", "train", "c.yaml", "--launcher", "accelerate"], None, {}),
        (["axolotl", "train", "c.yaml", "--", "--num_processes=4"], None, {}),
        (["axolotl", "preprocess", "c.yaml"], None, {}),
        (["bash", "-c", "axolotl train c.yaml"], None, {}),
    ],
)
def test_a_training_of_several_processes_gets_torchrun_unless_it_says_otherwise(policy, command, args, wanted):
    given = {name: value for name, value in {"command": command, "args": args}.items() if value is not None}
    decision = decide(policy, numNodes=2, **given)
    assert trainer_of(decision) == {**given, "numNodes": 2, **wanted}
    assert admissions.decide(decision.document, RUNTIME, policy=policy).verdict == "unchanged"


def test_a_single_process_is_left_alone(policy):
    assert decide(policy, command=["axolotl", "train", "c.yaml"], numNodes=1, numProcPerNode=1).verdict == "unchanged"


def test_a_launcher_that_leaves_the_nodes_alone_is_refused(policy):
    decision = decide(
        policy, "validate", command=["axolotl", "train", "c.yaml", "--launcher", "accelerate"], numNodes=2
    )
    (found,) = decision.findings
    assert decision.verdict == "denied"
    assert (found.field, found.value, found.rule) == ("spec.trainer.command[4]", "accelerate", "axolotl/launcher")


@pytest.mark.parametrize("extra", [["--launcher", "torchrun"], [], ["--launcher"], ["--", "--num_machines=2"]])
def test_every_other_launcher_passes(policy, extra):
    command = ["axolotl", "train", "c.yaml", *extra]
    assert decide(policy, "validate", command=command, numNodes=2).verdict == (
        "denied" if extra == ["--launcher"] else "allowed"
    )


def test_what_is_not_enforced_is_said(policy):
    for command in (["bash", "-c", "axolotl train c.yaml"], ["axolotl", "train", "c.yaml", "--", "--num_processes=4"]):
        (found,) = decide(policy, command=command, numNodes=2).findings
        assert found.rule.startswith("axolotl/")


def test_the_jobset_gets_the_rendezvous_of_every_torch_framework(policy):
    trainjob = jobs.make_trainjob(runtime="axolotl", numNodes=2, metadata={"uid": jobs.UID})
    jobset = upstream.build_jobset(trainjob, RUNTIME)
    decision = admissions.decide(jobset, RUNTIME, trainjob, policy=policy)
    assert decision.verdict == "patched"
    assert jobs.env_of(jobs.container_of(decision.document))["MASTER_ADDR"] == "llama-node-0-0.llama"


def test_the_test_in_its_readme_passes(site):
    (code,) = re.findall(r"```python\n(.*?)```", (SAMPLE / "README.md").read_text(), re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})  # noqa: S102 - what readers are told to run


def test_its_own_tests_pass_and_it_imports_only_the_public_faces(site):
    plain = ["-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-c", os.devnull, "--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", *plain, str(SAMPLE / "tests")]
    path = os.pathsep.join([str(site), str(SAMPLE.parents[1])])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stdout
    sources = [file.read_text() for file in SAMPLE.rglob("*.py")]
    imported = {
        node.module for source in sources for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
    }
    ours = {name for name in imported if name.partition(".")[0] in {"muster", "tests"}}
    assert ours == {"muster.strategies", "muster.testing"}


def test_the_strategy_of_the_page_for_authors_passes_what_the_page_says():
    page = SAMPLE.parents[1] / "docs" / "strategies.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    exec(compile(code, "strategies.md", "exec"), {})  # noqa: S102 - what readers are told to run
