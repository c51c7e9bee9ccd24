"""Objects beside a job whose members have another type are no reason to end with an exception."""

from __future__ import annotations

import copy

import pytest
import yaml

from tests.jobsets.sets import TORCHRUN, container, jobset, part

NAMES = {"metadata": {"name": "default", "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
OBJECTS = {
    "Namespace": ("v1", {}),
    "NetworkPolicy": (
        "networking.k8s.io/v1",
        {
            "podSelector": {
                "matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}],
            },
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {}}], "ports": [{"port": 1}]}],
        },
    ),
    "LimitRange": ("v1", {"limits": [{"type": "Container", "max": {"cpu": 1}}]}),
    "ResourceQuota": ("v1", {"hard": {"requests.cpu": 1, "count/jobs.batch": 1}}),
    "LocalQueue": ("kueue.x-k8s.io/v1beta1", {"clusterQueue": "default"}),
    "ClusterQueue": (
        "kueue.x-k8s.io/v1beta1",
        {
            "resourceGroups": [
                {
                    "coveredResources": ["cpu"],
                    "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 1}]}],
                }
            ]
        },
    ),
    "PersistentVolumeClaim": ("v1", {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 1}}}),
    "Service": ("v1", {"selector": {"a": "b"}, "ports": [{"port": 1}]}),
}


def places(value, path=()):
    """Yield the path of each value inside a document, from the outside on."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*path, key)
        yield from places(inner, (*path, key))


def with_value(document, path, value):
    changed = copy.deepcopy(document)
    inside = changed
    for step in path[:-1]:
        inside = inside[step]
    inside[path[-1]] = value
    return changed


def the_job():
    main = container(*TORCHRUN)
    main["resources"] = {"limits": {"nvidia.com/gpu": 4}}
    main["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    main["env"] = [{"name": "PET_MASTER_ADDR", "value": "default"}]
    main["securityContext"] = {"capabilities": {"add": True, "drop": 1}}
    pod = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "default"}}]}
    job = jobset(part("node", main, pod=pod))
    job["metadata"].setdefault("labels", {})["kueue.x-k8s.io/queue-name"] = "default"
    return job


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_member_of_any_type_ends_no_check(kind, muster):
    version, spec = OBJECTS[kind]
    document = {"apiVersion": version, "kind": kind, **copy.deepcopy(NAMES), "spec": spec}
    others = [{"apiVersion": OBJECTS[name][0], "kind": name, **NAMES, "spec": OBJECTS[name][1]} for name in OBJECTS]
    others = [each for each in others if each["kind"] != kind and each["kind"].endswith("Queue")]
    inputs = [
        with_value(document, path, value) for path in places(spec, ("spec",)) for value in (True, 7, [3], {"a": 1})
    ]
    for changed in inputs or [document]:
        result = muster("check", "-f", "-", stdin=yaml.safe_dump_all([changed, *others, the_job()]))
        assert "Muster failed" not in result.out + result.err
