"""Members that checks have come to read since the others were drawn at random: each with values of every other type."""

from __future__ import annotations

import copy

import orjson
import pytest

from muster.webhook.admission import decisions, reviews
from tests.support import admissions, generated, jobs

ODD = [True, -1, 1.5, "x" * 300, [], {}, [[]], [{}], [None, 1, "a"], {"a": {"b": [1]}}]
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_EXPRESSION = {"key": "a", "operator": "Gt", "values": ["1"]}
_CONTAINER = {
    "command": ["/c/run"],
    "env": [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}],
    "envFrom": [{"configMapRef": {"name": "a"}}],
    "ports": [{"containerPort": 1, "hostPort": 2, "name": "a", "protocol": "TCP"}],
    "volumeMounts": [{"name": "c", "mountPath": "/c", "subPath": "a"}, {"name": "p", "mountPath": "/p"}],
    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"add": ["CAP_SYS_ADMIN"]}},
    "readinessProbe": {"httpGet": {"port": 1, "httpHeaders": [{"name": "a", "value": "b"}]}, "periodSeconds": 1},
    "lifecycle": {"preStop": {"exec": {"command": ["a"]}}},
}
_POD = {
    "securityContext": {"runAsUser": 0, "runAsNonRoot": True},
    "hostNetwork": True,
    "initContainers": [{"name": "first", "restartPolicy": "Always", "startupProbe": {"exec": {"command": ["a"]}}}],
    "affinity": {
        "nodeAffinity": {_PREFERRED: [{"weight": 1, "preference": {"matchExpressions": [_EXPRESSION]}}]},
        "podAntiAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a"}}]},
    },
    "volumes": [
        {"name": "c", "configMap": {"name": "a", "defaultMode": 420, "items": [{"key": "a", "mode": 420}]}},
        {"name": "p", "projected": {"sources": [{"configMap": {"items": [{"key": "a", "mode": 420}]}}]}},
        {"name": "h", "hostPath": {"path": "/a", "type": "File"}},
        {"name": "e", "emptyDir": {"medium": "Memory"}},
    ],
}
_RULE = {
    "action": "FailJob",
    "onExitCodes": {"containerName": "x", "operator": "In", "values": [1, 2]},
    "onPodConditions": [{"type": "a"}],
}
_JOB = {"backoffLimitPerIndex": 1, "podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [_RULE]}}
_SPEC = {
    "startupPolicy": {"startupPolicyOrder": "InOrder"},
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["a"]},
    "failurePolicy": {"rules": [{"name": "a", "action": "RestartJob", "targetReplicatedJobs": ["b"]}]},
    "volumeClaimPolicies": [{"templates": [{"metadata": {"name": "c"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}],
    "managedBy": "a/b",
}


def made():
    document = copy.deepcopy(jobs.make_jobset(container=_CONTAINER, nodes=2))
    document["spec"] |= copy.deepcopy(_SPEC)
    (first,) = document["spec"]["replicatedJobs"]
    first["template"]["spec"] |= copy.deepcopy(_JOB)
    first["template"]["spec"]["template"]["spec"] |= copy.deepcopy(_POD)
    other = {**copy.deepcopy(first), "name": "other", "dependsOn": [{"name": "train", "status": "Complete"}]}
    document["spec"]["replicatedJobs"].append(other)
    return document


def changed(node, path, value):
    if not path:
        return value
    copied = node.copy()
    copied[path[0]] = changed(node[path[0]], path[1:], value)
    return copied


@pytest.mark.parametrize("odd", ODD, ids=lambda value: str(value)[:20])
def test_a_member_of_any_other_type_ends_no_decision(odd):
    document, reader = made(), admissions.make_reader()
    for path in generated.paths_of(document):
        if path[:1] != ("spec",) or len(path) < 2:
            continue
        review = admissions.make_review(changed(document, path, odd))
        decision = decisions.evaluate(reviews.parse(orjson.dumps(review), "validate"), reader, admissions.POLICY)
        assert decision.verdict != "error", (path, decision.message)
