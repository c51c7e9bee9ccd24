"""Pods and sets that never start or never end: images, names, hosts, success policies, programs that wait."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.strategies.checks import startups
from muster.strategies.documents.findings import Severity
from muster.strategies.launches import pod_endings
from tests.frameworks.builders import found, jobset, replicated_job

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    "image",
    [
        "https://ghcr.io/t/x",
        "ghcr.io/Team/x",
        "x:1:2",
        "x:",
        "x@sha256:ab",
        "ghcr.io//x",
        "{{ image }}",
        "$IMAGE",
        "-x/y",
    ],
)
def test_a_text_that_is_no_reference_of_an_image_is_told(image):
    assert startups.wrong_image(image)


@pytest.mark.parametrize(
    "image",
    [
        "x",
        "x:1",
        "Team/x:1",
        "localhost/x",
        "localhost:5000/a/b_c:v1",
        "[::1]:5000/x",
        "a__b/c--d",
        "x@sha256:" + "a" * 64,
    ],
)
def test_a_reference_of_an_image_is_right(image):
    assert startups.wrong_image(image) == ""


@given(st.text(st.sampled_from("aZ09._-/:@[]$ ")))
def test_no_text_is_too_odd_to_be_judged(text):
    assert isinstance(startups.wrong_image(text), str)


NO_POD = {
    "a claim with capitals": {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "Data"}}]},
    "a secret with a slash": {"volumes": [{"name": "a", "secret": {"secretName": "a/b"}}]},
    "a working directory of nowhere": {"containers": [{"workingDir": "work"}]},
    "a medium in small letters": {"volumes": [{"name": "a", "emptyDir": {"medium": "memory"}}]},
    "a size without its unit": {"volumes": [{"name": "a", "emptyDir": {"sizeLimit": 64}}]},
    "root that is forbidden": {"containers": [{"securityContext": {"runAsUser": 0, "runAsNonRoot": True}}]},
    "root of the pod that is forbidden": {"securityContext": {"runAsUser": 0, "runAsNonRoot": True}},
    "an init container that tails": {"initContainers": [{"name": "i", "command": ["tail", "-f", "/dev/null"]}]},
}


RULES = ("core/object-name", "core/endless-init", "core/working-dir", "core/volume-source", "core/security-context")


def faults_of(spec):
    container = {"name": "node", "command": ["torchrun", "x.py"], **(spec.get("containers") or [{}])[0]}
    pod = {key: value for key, value in spec.items() if key != "containers"}
    job = jobset(replicated_job("node", container, pod=pod))
    return [each for each in found("torch", job) if each.rule in RULES]


@pytest.mark.parametrize("spec", NO_POD.values(), ids=NO_POD)
def test_a_pod_that_never_starts_is_told(spec):
    assert len(faults_of(spec)) == 1


RIGHT = {
    "names": {"volumes": [{"name": "a", "configMap": {"name": "a-b"}}, {"name": "b"}]},
    "a sidecar that tails": {
        "initContainers": [{"name": "i", "restartPolicy": "Always", "command": ["tail", "-f", "/dev/null"]}]
    },
    "an init container that ends": {
        "initContainers": [{"name": "i", "command": ["sh", "-c", "until nslookup a; do sleep 1; done"]}]
    },
}


@pytest.mark.parametrize("spec", RIGHT.values(), ids=RIGHT)
def test_a_pod_that_starts_is_passed_over(spec):
    assert not faults_of(spec)


def on(pods=2, gpus=1, podlabels=None, **pod):
    container = {"name": "node", "command": ["torchrun", "x.py"], "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    job = replicated_job("node", container, parallelism=pods, completions=pods)
    job["template"]["spec"]["template"]["spec"].update(pod)
    job["template"]["spec"]["template"]["metadata"] = {"labels": podlabels or {}}
    return jobset(job, name="a")


def apart(**labels):
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": labels}}
    return {"podAntiAffinity": {REQUIRED: [term]}}


HERE = {"kubernetes.io/hostname": "gpu-1"}


@pytest.mark.parametrize(
    ("job", "severities"),
    [
        (on(nodeSelector=HERE), []),
        (on(pods=4, gpus=8, nodeSelector=HERE), [Severity.WARNING]),
        (on(pods=4, gpus=8, nodeName="gpu-1"), [Severity.WARNING]),
        (on(pods=1, gpus=8, nodeName="gpu-1"), []),
        (on(nodeSelector=HERE, affinity=apart(a="b"), podlabels={"a": "b"}), [Severity.ERROR]),
        (on(nodeSelector=HERE, affinity=apart(a="b"), podlabels={"a": "c"}), []),
        (on(affinity=apart(a="b"), podlabels={"a": "b"}), []),
        (on(gpus=8, nodeSelector={"nvidia.com/gpu.count": "4"}), [Severity.WARNING]),
        (on(gpus=8, nodeSelector={"nvidia.com/gpu.count": "8"}), []),
        (on(gpus=8, nodeSelector={"amd.com/gpu.family": "AI"}), [Severity.WARNING]),
    ],
)
def test_pods_that_no_host_can_hold_are_told(job, severities):
    assert [each.severity for each in found("torch", job) if each.rule == "core/no-node"] == severities


@pytest.mark.parametrize(
    "command",
    [
        ["sleep", "infinity"],
        ["tail", "-f", "/dev/null"],
        ["tensorboard", "--logdir", "/out"],
        ["python3", "-m", "http.server", "80"],
        ["jupyter", "lab", "--no-browser"],
        ["bash", "-c", "nvidia-smi; while true; do sleep 5; done"],
    ],
)
def test_a_program_that_only_waits_or_serves_never_ends(command):
    assert pod_endings.never_ends(command)


@pytest.mark.parametrize(
    "command",
    [
        ["sleep", "60"],
        ["tail", "-n", "5", "x"],
        ["tail", "--pid=4", "-f", "x"],
        ["tensorboard", "--version"],
        ["python3", "-m", "http.client"],
        ["jupyter", "nbconvert", "x.ipynb"],
        ["torchrun", "train.py"],
        ["redis-server", "--daemonize", "yes"],
        [],
    ],
)
def test_a_program_that_may_end_is_not_said_to_wait(command):
    assert not pod_endings.never_ends(command)


def test_a_source_that_may_be_missing_has_any_name():
    key = {"name": "MY_MAP", "key": "k", "optional": True}
    spec = {
        "volumes": [{"name": "v", "configMap": {"name": "MY_MAP", "optional": True}}],
        "containers": [{"name": "c", "image": "x", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": key}}]}],
    }
    assert faults_of(spec) == []


def test_of_command_lines_that_differ_only_so_many_characters_are_read_and_the_same_one_once():
    reader, comment = pod_endings.Reader(), "#" * 2_000
    lines = [("bash", "-c", f"{comment}\necho {number}\nsleep infinity") for number in range(40)]
    found = [reader.never_ends(each) for each in lines]
    assert found == sorted(found, reverse=True)
    assert 30 < sum(found) < 40
    assert [reader.never_ends(each) for each in lines] == found
