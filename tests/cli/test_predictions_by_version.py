"""A predicted JobSet is what the Trainer in force makes, as the code of each version answered."""

from __future__ import annotations

import functools
import json

import pytest

from muster.strategies.documents.runtimes import NEWEST, VERSIONS, Runtime
from muster.strategies.trainer import predictions
from tests.cli.test_predictions import GOLDEN, node, nodes, resources

OLDER = [name for name in VERSIONS if name not in (NEWEST.name, "next")]


@functools.cache
def content(framework, version):
    return json.loads((GOLDEN / framework / f"{version}.json").read_text())


def answered():
    """All answers of a version: its own file has those that differ from the newest one's."""
    for version in OLDER:
        for framework in ("torch", "torchtune"):
            newest, own = content(framework, "cases"), content(framework, version)
            runtimes = {**newest["runtimes"], **own["runtimes"]}
            differing = {case["name"] for case in own["cases"]}
            same = [case for case in newest["cases"] if case["name"] not in differing] if framework == "torch" else []
            for case in [*own["cases"], *same]:
                if case["runtime"] != "inject-node":  # no older Trainer has envInjection
                    yield pytest.param(version, case, runtimes[case["runtime"]], id=f"{version} {case['name']}")


def predicted(version, case, runtime):
    return predictions.predict(case["trainjob"], Runtime(runtime, "live", version=VERSIONS[version]), "lab").jobset


@pytest.mark.parametrize(("version", "case", "runtime"), list(answered()))
def test_the_training_container_is_the_one_that_this_trainer_made(version, case, runtime):
    found = node(predicted(version, case, runtime))
    assert found.get("command") == case["wantCommand"]
    assert found.get("args") == case["wantArgs"]
    assert found.get("env") == case["wantEnv"]
    assert resources(found.get("resources")) == resources(case["wantResources"])


def patched():
    for version in (*OLDER, NEWEST.name):
        for case in content("torch", "cases" if version == NEWEST.name else version)["cases"]:
            if "wantPod" in case:
                yield pytest.param(version, case, id=f"{version} {case['name']}")


def by_name(entries):
    return sorted(entries or (), key=lambda entry: entry["name"])


@pytest.mark.parametrize(("version", "case"), list(patched()))
def test_what_a_trainjob_changes_in_its_pods_is_laid_over_them_as_this_trainer_does(version, case):
    jobset = predicted(version, case, content("torch", "cases")["runtimes"][case["runtime"]])
    pod, wanted = nodes(jobset)["template"]["spec"]["template"], case["wantPod"]
    assert jobset["metadata"].get("labels") == case["wantLabels"]
    assert (pod.get("metadata") or {}).get("labels") == (wanted.get("metadata") or {}).get("labels")
    for member in ("serviceAccountName", "nodeSelector", "tolerations", "schedulingGates"):
        assert pod["spec"].get(member) == wanted["spec"].get(member), member
    assert by_name(pod["spec"]["volumes"]) == by_name(wanted["spec"]["volumes"])
    (container,) = wanted["spec"]["containers"]
    assert node(jobset).get("volumeMounts") == container["volumeMounts"]


def test_every_version_differs_from_the_newest_in_some_answer():
    assert all(content("torch", version)["cases"] for version in OLDER)
