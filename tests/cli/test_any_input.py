"""Whatever a file holds, the commands answer with an exit code and lines, never with a traceback."""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.webhook import kubeyaml
from tests.cli import jobs

TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {"replicatedJobs": [{"name": "node", "template": {}}]}}
FULL = {
    **jobs.two_nodes(metadata={"labels": {"a": "b"}, "annotations": {"muster.dev/rendezvous": "c10d"}, "uid": "u"}),
    "status": {"conditions": [{"type": "Suspended"}]},
}
FULL["spec"] |= {
    "runtimeRef": {"name": "own", "kind": "ClusterTrainingRuntime"},
    "suspend": True,
    "initializer": {
        "model": {"storageUri": "hf://m", "env": [{"name": "A", "value": "1"}], "secretRef": {"name": "s"}}
    },
    "runtimePatches": [{"manager": "x.y/z", "trainingRuntimeSpec": {"template": TEMPLATE}}],
}
INITIALIZER = {"name": "model-initializer", "image": "i", "volumeMounts": [{"name": "initializer", "mountPath": "/m"}]}
TARGETS = [{"jobName": "node", "containerNames": ["node"]}]
RUNTIME = jobs.runtime(
    framework="trl",
    policy={"numNodes": 1, "torch": {"envInjection": {"targets": TARGETS}}},
    template={"metadata": {"labels": {"team": "a"}}},
    env=[{"name": "A", "value": "1"}],
    resources={"limits": {"nvidia.com/gpu": 1}},
)
INITIALIZING = {"containers": [INITIALIZER], "volumes": [{"name": "initializer", "emptyDir": {}}]}
LABELS = {"labels": {"trainer.kubeflow.org/trainjob-ancestor-step": "model-initializer"}}
REPLICATED = RUNTIME["spec"]["template"]["spec"]["replicatedJobs"]
REPLICATED[0]["dependsOn"] = [{"name": "model-initializer", "status": "Complete"}]
REPLICATED.insert(
    0, {"name": "model-initializer", "template": {"metadata": LABELS, "spec": {"template": {"spec": INITIALIZING}}}}
)
DOCUMENTS = [RUNTIME, FULL, jobs.jobset("other", jobs.container(command=["torchrun", "x"]))]
VALUES = [
    None,
    0,
    -1,
    True,
    1.5,
    "",
    "x",
    "\x1b[31m\n",
    "$(A)",
    [],
    [1],
    ["x"],
    [None],
    {},
    {"name": "x"},
    {"a": {"b": 1}},
]


def places(value, path=()):
    if path:
        yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from places(child, (*path, key))


PLACES = [
    (number, *path)
    for number, document in enumerate(DOCUMENTS)
    for path in places(document)
    if path[0] not in ("apiVersion", "kind")
]


def replaced(place, value):
    documents = copy.deepcopy(DOCUMENTS)
    node = documents
    for part in place[:-1]:
        node = node[part]
    node[place[-1]] = value
    return jobs.stream(*documents)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=150
)
@given(st.sampled_from(PLACES), st.sampled_from(VALUES))
def test_any_member_may_hold_anything(muster, place, value):
    stdin = replaced(place, value)
    explained = muster("explain", "-f", "-", stdin=stdin)
    rendered = muster("render", "--jobset", "-f", "-", stdin=stdin)
    assert {explained.code, rendered.code} <= {0, 1, 2}
    assert "Muster failed" not in explained.out + rendered.err
    assert "\x1b" not in explained.out + explained.err + rendered.out + rendered.err
    if rendered.code < 2:
        assert len(list(kubeyaml.load_all(rendered.out))) >= len(DOCUMENTS)


@settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=50
)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_any_bytes_are_read_or_refused(muster, data):
    result = muster("check", "-f", "-", stdin=data)
    assert result.code in (2, 3)
    assert result.out == ""
