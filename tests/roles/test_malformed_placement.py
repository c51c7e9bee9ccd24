"""Whatever stands where placement is read, the answer is a decision and never a crash."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.roles import places
from tests.support import admissions, generated, jobs, limits

TERM = {
    "labelSelector": {
        "matchLabels": {places.ROLE: "x"},
        "matchExpressions": [{"key": places.ROLE, "operator": "In", "values": ["x"]}],
    },
    "topologyKey": "kubernetes.io/hostname",
}
POD = {
    "nodeSelector": {"pool": "both"},
    "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            places.REQUIRED: {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [{"key": "pool", "operator": "Gt", "values": ["1"]}],
                        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
                    }
                ]
            }
        },
        "podAffinity": {places.REQUIRED: [TERM]},
        "podAntiAffinity": {places.REQUIRED: [TERM]},
    },
    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    "initContainers": [{"name": "i", "restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}],
    "resources": {"limits": {"cpu": "1"}},
}
JOBSET = places.make_sampler(pod=POD, container={"resources": {"requests": {"memory": "1Gi"}}})
PATCH = {
    "manager": "a.example/b",
    "trainingRuntimeSpec": {
        "template": {
            "spec": {
                "replicatedJobs": [
                    {
                        "name": "node",
                        "template": {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}}},
                    }
                ]
            }
        }
    },
}
TRAINJOB = jobs.make_trainjob(metadata={"labels": {places.ROLE: "trainer"}}, spec={"runtimePatches": [PATCH]})
PARTS = ("metadata", "spec", "status")
NODE = places.make_node(taints=[{"key": "a", "value": "b", "effect": "NoSchedule"}])


def broken(document, data):
    """The document with something else in one place."""
    out = copy.deepcopy(document)
    every = [path for path in generated.paths_of(out) if len(path) > 1 and path[0] in PARTS]
    path = data.draw(st.sampled_from(every))
    node = out
    for part in path[:-1]:
        node = node[part]
    node[path[-1]] = data.draw(
        st.sampled_from((None, "x", 1, 1.5, True, [], {}, [None], [1], ["x"], [{}], {"a": None}))
    )
    return out


@pytest.mark.parametrize("document", [JOBSET, TRAINJOB], ids=["a JobSet", "a TrainJob"])
@pytest.mark.parametrize("phase", ["mutate", "validate"])
@limits.MANY
@given(data=st.data())
def test_any_place_of_a_job_may_hold_anything(document, phase, data):
    whole = broken(document, data)
    reader = admissions.make_reader(jobs.make_runtime(), NODE)
    decision = admissions.decide(whole, reader=reader, phase=phase, policy=places.POLICY, kind=document["kind"])
    assert decision.verdict in {"patched", "unchanged", "allowed", "denied"}, decision.message


@limits.MANY
@given(data=st.data())
def test_any_place_of_a_node_may_hold_anything(data):
    node = {**broken(NODE, data), "metadata": NODE["metadata"]}
    decision = admissions.decide(JOBSET, node, phase="validate", policy=places.POLICY)
    assert decision.verdict in {"allowed", "denied"}, decision.message


@limits.MANY
@given(data=st.data())
def test_any_place_of_a_runtime_may_hold_anything(data):
    runtime = jobs.make_runtime(pod=copy.deepcopy(POD))
    whole = broken(runtime, data)
    whole["metadata"] = runtime["metadata"]
    trainjob = jobs.make_trainjob(metadata={"labels": {places.ROLE: "trainer"}})
    decision = admissions.decide(trainjob, whole, phase="validate", policy=places.POLICY)
    assert decision.verdict in {"allowed", "denied", "error"}, decision.message
