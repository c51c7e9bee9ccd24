"""Axes: what of a job can grow, one axis for each list, mapping and text that Muster may read.

Nobody lists the axes by hand: `SKELETONS` are jobs that hold an entry of every list, and each list, mapping and text
that is found in them or in the cluster around them makes its axes.
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tests.support import devices, jobs
from tests.support.admissions import POLICY

__all__ = ["Axis", "Case", "axes"]

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Case:
    """One request and what stands around it."""

    document: Mapping[str, Any]
    cluster: tuple[Mapping[str, Any], ...] = ()
    old: Mapping[str, Any] | None = None
    policy: Any = POLICY

    @property
    def size(self) -> int:
        """Bytes of all documents."""
        return len(json.dumps([self.document, *self.cluster, self.old]))


@dataclass(frozen=True)
class Axis:
    """A way in which a case can grow.

    Attributes:
        name: the skeleton, the place, and what stands there.
        make: from a number to the case of that size.
        unit: the number to begin with.
        most: the number beyond which nothing more is done, 0 for none.
    """

    name: str
    make: Callable[[int], Case]
    unit: int
    most: int = 0


# -- skeletons

_TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
_POD = {
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}],
    "topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
            }
        },
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]},
    },
    "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "shm", "emptyDir": {}}],
    "schedulingGates": [{"name": "example.org/wait"}],
    "imagePullSecrets": [{"name": "registry"}],
    "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}],
}
_CONTAINER = {
    "env": [{"name": "MODE", "value": "fast"}, {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "x"}}}],
    "envFrom": [{"configMapRef": {"name": "settings"}}],
    "ports": [{"containerPort": 29500, "name": "rendezvous"}],
    "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "gone", "mountPath": "/gone"}],
    "resources": {
        "limits": {"nvidia.com/gpu": "2", "cpu": "4"},
        "requests": {"memory": "8Gi"},
        "claims": [{"name": "gpus"}],
    },
}
_POLICIES = {
    "successPolicy": {"operator": "All", "targetReplicatedJobs": ["other"]},
    "failurePolicy": {
        "rules": [
            {
                "name": "a",
                "action": "FailJobSet",
                "onJobFailureReasons": ["BackoffLimitExceeded"],
                "targetReplicatedJobs": ["gone"],
            }
        ]
    },
}
_POD_FAILURES = {
    "rules": [{"action": "FailJob", "onExitCodes": {"containerName": "gone", "operator": "In", "values": [1]}}]
}
_CLAIMS = [{"templates": [{"metadata": {"name": "state"}, "spec": {"accessModes": ["ReadWriteOnce"]}}]}]


def _full(container: dict[str, Any]) -> dict[str, Any]:
    return copy.deepcopy({**_CONTAINER, **container})


def _jobset(framework: str, command: list[str], *, name: str = "train") -> dict[str, Any]:
    made = jobs.make_jobset(name, framework=framework, container=_full({"command": command[:1], "args": command[1:]}))
    pod = devices.pod_of(made)
    pod |= copy.deepcopy(_POD)
    pod["initContainers"] = [_full({"name": "download", "command": ["sh", "-c", "echo ready"]})]
    pod["containers"].append({"name": "proxy", "image": "example.org/proxy:1", "command": ["envoy"]})
    (first,) = made["spec"]["replicatedJobs"]
    first["dependsOn"] = [{"name": "other", "status": "Complete"}]
    other = copy.deepcopy(jobs.make_jobset("x")["spec"]["replicatedJobs"][0])
    other["name"] = "other"
    made["spec"]["replicatedJobs"].append(other)
    made["spec"]["volumeClaimPolicies"] = copy.deepcopy(_CLAIMS)
    made["spec"] |= copy.deepcopy(_POLICIES)
    first["template"]["spec"]["podFailurePolicy"] = copy.deepcopy(_POD_FAILURES)
    made["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "1"}]
    made["metadata"]["annotations"] = {"example.org/note": "x"}
    made["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    return made


def _runtime(name: str, framework: str) -> dict[str, Any]:
    made = jobs.make_runtime(name, framework=framework, container=_full({}), pod=copy.deepcopy(_POD), nodes=2)
    spec = made["spec"]["template"]["spec"]
    (node,) = spec["replicatedJobs"]
    node["dependsOn"] = [{"name": "dataset-initializer", "status": "Complete"}]
    spec["replicatedJobs"].insert(0, _initializer())
    spec["volumeClaimPolicies"] = copy.deepcopy(_CLAIMS)
    devices_pod = node["template"]["spec"]["template"]["spec"]
    devices_pod["initContainers"] = [_full({"name": "download", "command": ["sh", "-c", "echo ready"]})]
    return made


def _initializer() -> dict[str, Any]:
    container = {
        "name": "dataset-initializer",
        "image": "example.org/init:1",
        "env": [{"name": "URI", "value": "hf://x"}],
    }
    template = {"spec": {"containers": [container]}}
    labels = {jobs.ANCESTOR: "dataset-initializer"}
    return {"name": "dataset-initializer", "template": {"metadata": {"labels": labels}, "spec": {"template": template}}}


def _trainjob(runtime: str, command: list[str]) -> dict[str, Any]:
    patch = {
        "name": "node",
        "template": {"spec": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": copy.deepcopy(_POD)}}},
    }
    patches = [
        {"manager": "kueue", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": [patch]}}}},
    ]
    trainer = {**_full({}), "command": command[:1], "args": command[1:], "numNodes": 2}
    del trainer["ports"], trainer["volumeMounts"], trainer["envFrom"]
    trainer["resourcesPerNode"] = trainer.pop("resources")
    return jobs.make_trainjob(
        runtime=runtime,
        spec={"runtimePatches": patches},
        metadata={"annotations": {"example.org/note": "x"}, "labels": {"a": "b"}},
        **trainer,
    )


def _owned(jobset: dict[str, Any], trainjob: dict[str, Any], runtime: dict[str, Any]) -> Case:
    """Return a JobSet that Trainer made, with the runtime that it froze."""
    trainjob["metadata"]["uid"] = "t1"
    owner = {"apiVersion": jobs_api, "kind": "TrainJob", "name": "llama", "uid": "t1", "controller": True}
    jobset["metadata"]["ownerReferences"] = [owner]
    first = jobset["spec"]["replicatedJobs"][0]
    first["name"] = "node"
    first["template"]["metadata"] = {"labels": {jobs.ANCESTOR: "trainer"}}
    return Case(jobset, (trainjob, runtime, devices.template()))


jobs_api = "trainer.kubeflow.org/v1alpha1"
_TRL = ["trl", "sft", "--model_name_or_path", "m", "--output_dir=/out"]
_TORCHRUN = ["torchrun", "--nproc_per_node=2", "--nnodes", "2", "train.py", "--lr", "1"]
_TUNE = ["tune", "run", "--nproc_per_node", "2", "full_finetune_distributed", "--config", "llama3/8B", "a=b"]
_VLLM = ["vllm", "serve", "model", "--tensor-parallel-size", "2", "--port=8000"]
_SHELL = ["bash", "-c", "set -e\nexport A=1\nif [ $RANK = 0 ]; then echo x; fi\ntorchrun --nproc_per_node=2 a.py"]
_ACCELERATE = ["accelerate", "launch", "--num_processes", "4", "train.py"]
_PYTHON = ["python", "train.py", "--x", "1"]
_ANNOTATIONS = {
    "muster.dev/claim-profile": "quad",
    "muster.dev/resource-claims": json.dumps([{"name": "a", "resourceClaimTemplateName": "two"}]),
    "muster.dev/rendezvous": "c10d",
    "muster.dev/trl-method": "sft",
    "muster.dev/vllm-features": "a,b",
    "muster.dev/applied": json.dumps({"strategy": "trl", "version": "1", "fields": {"spec.trainer.args": "1234"}}),
    "muster.dev/mode": "enforce",
}


def _with_annotations(document: dict[str, Any]) -> dict[str, Any]:
    made = copy.deepcopy(document)
    made["metadata"].setdefault("annotations", {}).update(_ANNOTATIONS)
    return made


def skeletons() -> Mapping[str, Case]:
    """Return the jobs that the axes start from."""
    two, claim = devices.template(), devices.template("one", kind="ResourceClaim")
    offered = devices.policy(trl="plain")
    made: dict[str, Case] = {}
    for name, framework, command in (
        ("trl", "trl", _TRL),
        ("torch", "torch", _TORCHRUN),
        ("torchtune", "torchtune", _TUNE),
        ("default", "", _PYTHON),
    ):
        runtime = _runtime(f"{name}-runtime", framework)
        made[f"trainjob-{name}"] = Case(_trainjob(f"{name}-runtime", command), (runtime, two, claim))
    for name, framework, command in (
        ("trl", "trl", _TRL),
        ("torch", "torch", _TORCHRUN),
        ("shell", "torch", _SHELL),
        ("accelerate", "torch", _ACCELERATE),
        ("vllm", "vllm", _VLLM),
        ("none", "", _PYTHON),
    ):
        made[f"jobset-{name}"] = Case(_jobset(framework, command), (two, claim))
    made["owned"] = _owned(_jobset("", _TRL), _trainjob("trl-runtime", _TRL), _runtime("trl-runtime", "trl"))
    base = made["trainjob-trl"]
    runtime = _with_annotations(base.cluster[0])
    claimed = _with_annotations(base.document)
    made["trainjob-claims"] = Case(claimed, (runtime, *base.cluster[1:], devices.device_class()), policy=offered)
    claimed = _with_annotations(made["jobset-torch"].document)
    made["jobset-claims"] = Case(claimed, (two, claim, devices.device_class()), policy=offered)
    return made


# -- axes of a skeleton


def _sites(node: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    yield path, node
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        yield from _sites(inner, (*path, key))


def _changed(document: Any, path: Path, change: Callable[[Any], Any]) -> Any:
    """Return the document with the value at `path` changed; only what lies around it is copied."""
    if not path:
        return change(document)
    made = document.copy()
    made[path[0]] = _changed(document[path[0]], path[1:], change)
    return made


_KEYS = ("name", "mountPath", "containerPort", "manager", "key", "topologyKey")


def _renamed(entry: Any, number: int) -> Any:
    if isinstance(entry, str):
        return f"{entry}-{number}"
    if not isinstance(entry, dict):
        return entry
    made = dict(entry)
    for key in _KEYS:
        if isinstance(made.get(key), str):
            made[key] = f"{made[key]}-{number}"
        elif isinstance(made.get(key), int):
            made[key] = made[key] + number + 1
    return made


def _unnamed(entry: Any, number: int) -> Any:
    return {key: value for key, value in entry.items() if key not in _KEYS} if isinstance(entry, dict) else entry


_FILLS: Mapping[str, Callable[[Any, int], Any]] = {
    "other": _renamed,
    "same": lambda entry, number: entry,
    "unnamed": _unnamed,
}


def grown(found: Any, size: int, fill: str) -> Any:
    """Return a list or a mapping with `size` more entries like its own."""
    if isinstance(found, list):
        extra = (
            _FILLS[fill](entry, number) for number, entry in zip(range(size), itertools.cycle(found), strict=False)
        )
        return [*found, *extra]
    key, value = next(iter(found.items()), ("key", "value"))
    return {**found, **{f"{key}-{number}": value for number in range(size)}}


_TEXTS: Mapping[str, Callable[[int], str]] = {
    "letters": lambda size: "a" * size,
    "digits": lambda size: "9" * size,
    "brackets": lambda size: "[" * size,
    "dollars": lambda size: "$(" * (size // 2),
    "commas": lambda size: "a," * (size // 2),
    "paths": lambda size: "a.b[c]/" * (size // 7),
    "json": lambda size: "[" + ",".join(['{"name":"a","count":1}'] * (size // 23)) + "]",
    "members": lambda size: "{" + ",".join(f'"a{n}":1' for n in range(size // 8)) + "}",
    "nested": lambda size: '{"a":' * (size // 6) + "1" + "}" * (size // 6),
}


@dataclass(frozen=True)
class Place:
    """A place in one of the documents of a case."""

    index: int
    path: Path

    def changed(self, case: Case, change: Callable[[Any], Any]) -> Case:
        """Return the case with the value here changed."""
        documents = [case.document, *case.cluster]
        documents[self.index] = _changed(documents[self.index], self.path, change)
        return Case(documents[0], tuple(documents[1:]), case.old, case.policy)

    @property
    def written(self) -> str:
        """The place as a text."""
        return f"{self.index}:" + ".".join(map(str, self.path))


def places(case: Case) -> Iterator[tuple[Place, Any]]:
    """Yield every place of the documents with its value."""
    for index, document in enumerate((case.document, *case.cluster)):
        for path, value in _sites(document):
            if path and path[0] not in ("apiVersion", "kind"):
                yield Place(index, path), value


def axes(*, texts: bool = True) -> Iterator[Axis]:
    """Yield the axes of each list, mapping and text of the skeletons."""
    for name, case in skeletons().items():
        for place, value in places(case):
            if isinstance(value, (list, dict)) and value:
                yield from _list_axes(name, case, place, value)
            elif texts and isinstance(value, str):
                yield from _text_axes(name, case, place)


def _list_axes(name: str, case: Case, place: Place, value: Any) -> Iterator[Axis]:
    for fill in _FILLS if isinstance(value, list) and isinstance(value[0], dict) else ("other",):

        def make(size: int, fill: str = fill) -> Case:
            return place.changed(case, lambda found: grown(found, size, fill))

        yield Axis(f"{name} {place.written} {fill}", make, 12)


def _text_axes(name: str, case: Case, place: Place) -> Iterator[Axis]:
    for kind, text in _TEXTS.items():

        def make(size: int, text: Callable[[int], str] = text) -> Case:
            return place.changed(case, lambda _: text(size))

        yield Axis(f"{name} {place.written} {kind}", make, 2048)
