"""The largest documents that pass the budget: one of each kind of list or text that an author can fill.

Each kind is a function from a size to a job and what stands around it. `documents` grows it as far as the budget lets
it, so that the documents follow the budget when that changes; `tests/growth` measures how the work grows on the way.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import orjson
from msgspec.structs import replace

from muster.webhook.admission import budgets
from muster.webhook.admission.policies import Policy
from tests.roles import places
from tests.support import devices, jobs

__all__ = ["KINDS", "Largest", "documents", "made"]

BODY = 3 * 1024 * 1024
"""Bytes of the largest object that an API server takes by default (k8s.io/apiserver `limitRequestBody`)."""
POLICY = replace(devices.policy(trl="plain"), roles=places.ROLES)
_MOST = 1 << 21

Json = dict[str, Any]


@dataclass(frozen=True)
class Largest:
    """A job that has much of something.

    Attributes:
        name: what there is much of.
        size: how much of it.
        document: the job.
        cluster: what stands around it.
        policy: the policy in force.
    """

    name: str
    size: int
    document: Mapping[str, Any]
    cluster: tuple[Mapping[str, Any], ...] = ()
    policy: Policy = POLICY


# -- parts of jobs


def _jobset(count: int, framework: str, make: Callable[[int], Json], **more: Any) -> Json:
    """Return a JobSet of `count` replicated jobs; `make` returns the container of each."""
    made = jobs.make_jobset("many", framework=framework, **more)
    (one,) = made["spec"]["replicatedJobs"]
    made["spec"]["replicatedJobs"] = [_part(one, f"part-{number}", make(number)) for number in range(count)]
    return made


def _part(like: Json, name: str, container: Json, pod: Json | None = None) -> Json:
    part: Json = copy.deepcopy(like)
    part["name"] = name
    spec = part["template"]["spec"]["template"]["spec"]
    spec["containers"] = [{"name": "main", "image": "example.org/a:1", **container}]
    spec |= pod or {}
    return part


def _pod(document: Json, number: int = 0) -> Json:
    return devices.pod_of(document, number)


def _labelled(document: Json, of_pod: Mapping[str, str], kind: str = "labels") -> Json:
    """Give the pods of all replicated jobs labels or annotations."""
    for part in document["spec"]["replicatedJobs"]:
        inner = part["template"]["spec"]["template"]
        inner.setdefault("metadata", {}).setdefault(kind, {}).update(of_pod)
    return document


def _one(framework: str, container: Json, **pod: Any) -> Json:
    made = jobs.make_jobset("one", framework=framework, container=container)
    _pod(made).update(pod)
    return made


def _spread(words: list[Any], each: int = 4_900) -> Iterator[list[Any]]:
    """Divide a list that no single list of a document may hold."""
    for first in range(0, max(len(words), 1), each):
        yield words[first : first + each]


def _containers(framework: str, container: Json, key: str, entries: list[Any]) -> Json:
    """Return a JobSet whose one pod has as many containers as the entries of one list need."""
    made = _one(framework, container)
    first = _pod(made)["containers"][0]
    for number, some in enumerate(_spread(entries)):
        if number:
            _pod(made)["containers"].append(
                {**copy.deepcopy(container), "name": f"more-{number}", "image": "a:1", key: some}
            )
        else:
            first[key] = [*first.get(key, ()), *some]
    return made


def _trainjob(runtime: Json, **more: Any) -> tuple[Json, Json]:
    return jobs.make_trainjob(runtime=runtime["metadata"]["name"], **more), runtime


_GPUS: Json = {"limits": {"nvidia.com/gpu": "2"}}
_TORCHRUN = {"command": ["torchrun", "--nproc_per_node=2", "train.py"], "resources": _GPUS}
_VLLM = {"command": ["vllm", "serve", "org/model", "--port=8000"], "resources": _GPUS}
_TRL = {"command": ["trl", "sft", "--model_name_or_path", "m"], "resources": _GPUS}
_GRPO = {
    "command": [
        "torchrun",
        "-m",
        "trl.scripts.grpo",
        "--use_vllm",
        "--model_name_or_path=org/model",
        "--output_dir=/shared/a",
    ],
    "resources": _GPUS,
}
_BASH = {"resources": _GPUS}
_EVERY: dict[str, Callable[[int], Json | tuple[Json, ...]]] = {}


def _kind(name: str) -> Callable[[Callable[[int], Any]], Callable[[int], Any]]:
    def keep(make: Callable[[int], Any]) -> Callable[[int], Any]:
        _EVERY[name] = make
        return make

    return keep


def _same(container: Json) -> Callable[[int], Json]:
    return lambda _: copy.deepcopy(container)


# -- replicated jobs

for _name, _framework, _container in (
    ("torch", "torch", _TORCHRUN),
    ("trl", "trl", _TRL),
    ("vllm servers", "vllm", _VLLM),
    (
        "torchtune",
        "torchtune",
        {"command": ["tune", "run", "--nproc_per_node", "2", "full_finetune_distributed", "--config", "a"]},
    ),
    (
        "accelerate",
        "torch",
        {"command": ["accelerate", "launch", "--num_processes", "4", "train.py"], "resources": _GPUS},
    ),
    ("python", "", {"command": ["python", "train.py"]}),
    ("without a command", "torch", {}),
):
    _kind(f"replicated jobs, {_name}")(partial(lambda n, f, c: _jobset(n, f, _same(c)), f=_framework, c=_container))


@_kind("replicated jobs, torch, labelled trainer")
def _trainers(size: int) -> Json:
    return _labelled(_jobset(size, "torch", _same(_TORCHRUN)), {"muster.dev/role": "trainer"})


@_kind("replicated jobs, torch, 10 claims by annotation each")
def _annotated(size: int) -> Json:
    wanted = json.dumps([{"name": f"c{n}", "resourceClaimTemplateName": "two"} for n in range(10)])
    return _labelled(_jobset(size, "torch", _same(_TORCHRUN)), {devices.CLAIMS: wanted}, "annotations")


@_kind("replicated jobs, vllm, 10 claims by annotation each")
def _served_claims(size: int) -> Json:
    wanted = json.dumps([{"name": f"c{n}", "resourceClaimTemplateName": "two"} for n in range(10)])
    return _labelled(_jobset(size, "vllm", _same(_VLLM)), {devices.CLAIMS: wanted}, "annotations")


@_kind("replicated jobs, a profile each")
def _profiles(size: int) -> Json:
    return _labelled(_jobset(size, "torch", _same(_TORCHRUN)), {devices.PROFILE: "seats"}, "annotations")


def _claiming(parts: int, claims: int, framework: str, container: Json) -> Json:
    made = _jobset(parts, framework, _same(container))
    for part in made["spec"]["replicatedJobs"]:
        pod = part["template"]["spec"]["template"]["spec"]
        pod["resourceClaims"] = [{"name": f"c{n}", "resourceClaimTemplateName": "two"} for n in range(claims)]
        pod["containers"][0]["resources"] = {**_GPUS, "claims": [{"name": f"c{n}"} for n in range(claims)]}
    return made


for _name, _framework, _container in (("torch", "torch", _TORCHRUN), ("vllm", "vllm", _VLLM)):
    _kind(f"replicated jobs, {_name}, 2 claims each")(
        partial(lambda n, f, c: _claiming(n, 2, f, c), f=_framework, c=_container)
    )
    _kind(f"claims of 100 replicated jobs, {_name}")(
        partial(lambda n, f, c: _claiming(100, n, f, c), f=_framework, c=_container)
    )


@_kind("dependsOn of 300 replicated jobs")
def _depending(size: int) -> Json:
    made = _jobset(300, "torch", _same(_TORCHRUN))
    for part in made["spec"]["replicatedJobs"]:
        part["dependsOn"] = [{"name": f"part-{n}", "status": "Complete"} for n in range(size)]
    return made


@_kind("env of 500 replicated jobs")
def _many_env(size: int) -> Json:
    env = [{"name": f"A{n}", "value": "$(RANK)"} for n in range(size)]
    return _jobset(500, "torch", _same({**_TORCHRUN, "env": env}))


@_kind("words of 500 vllm servers")
def _many_words(size: int) -> Json:
    words = [f"--unknown-{n}=1" for n in range(size)]
    return _jobset(500, "vllm", _same({**_VLLM, "args": words}))


@_kind("scripts of 500 replicated jobs")
def _many_scripts(size: int) -> Json:
    return _jobset(500, "torch", _same({**_BASH, "command": ["bash", "-c", _repeated(_LAUNCH, size)]}))


# -- lists of one pod


@_kind("containers of one pod")
def _many_containers(size: int) -> Json:
    more = [
        {"name": f"more-{n}", "image": "a:1", "command": ["torchrun", "a.py"], "resources": _GPUS} for n in range(size)
    ]
    made = _one("torch", _TORCHRUN)
    _pod(made)["containers"] += more
    return made


@_kind("init containers that go on")
def _sidecars(size: int) -> Json:
    more = [
        {"name": f"more-{n}", "image": "a:1", "restartPolicy": "Always", "command": ["vllm", "serve", "m"]}
        for n in range(size)
    ]
    return _one("vllm", _VLLM, initContainers=more)


@_kind("env of one pod")
def _env(size: int) -> Json:
    entries = [{"name": f"A{n}", "value": "x"} for n in range(size)]
    return _containers("torch", _TORCHRUN, "env", entries)


@_kind("env that names other env")
def _chained(size: int) -> Json:
    entries = [{"name": f"A{n}", "value": f"$(A{n - 1}) $(A0)"} for n in range(size)]
    return _containers("trl", {**_TRL, "args": ["--lr=$(A100)"]}, "env", entries)


@_kind("env of one name")
def _repeated_env(size: int) -> Json:
    return _containers("torch", _TORCHRUN, "env", [{"name": "MASTER_ADDR", "value": "x"} for _ in range(size)])


@_kind("env of secrets")
def _secret_env(size: int) -> Json:
    entries = [{"name": f"HF_TOKEN_{n}", "value": f"planted-{n:08}-secret"} for n in range(size)]
    return _containers("torch", {**_TORCHRUN, "args": ["--nnodes=x"]}, "env", entries)


@_kind("env from Secrets")
def _referring_env(size: int) -> Json:
    source = {"secretKeyRef": {"name": "s", "key": "k"}}
    return _containers("torch", _TORCHRUN, "env", [{"name": f"A{n}", "valueFrom": source} for n in range(size)])


@_kind("volumes and their mounts")
def _volumes(size: int) -> Json:
    made = _one("torch", _TORCHRUN)
    _pod(made)["volumes"] = [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": "a"}} for n in range(size)]
    _pod(made)["containers"][0]["volumeMounts"] = [{"name": f"v{n}", "mountPath": f"/m/{n}"} for n in range(size)]
    return made


@_kind("volume claims of a JobSet and their mounts")
def _policies(size: int) -> Json:
    made = _one("torch", _TORCHRUN)
    claim = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    templates = [{**claim, "metadata": {"name": f"v{n}"}} for n in range(size)]
    made["spec"]["volumeClaimPolicies"] = [{"templates": templates}]
    _pod(made)["containers"][0]["volumeMounts"] = [{"name": f"v{n}", "mountPath": f"/m/{n}"} for n in range(size)]
    return made


@_kind("volume claims of a JobSet with 300 replicated jobs")
def _policies_of_parts(size: int) -> Json:
    mounts = {"volumeMounts": [{"name": "v0", "mountPath": "/m"}]}
    made = _jobset(300, "torch", _same({**_TORCHRUN, **mounts}))
    claim = {"spec": {"accessModes": ["ReadWriteMany"]}}
    made["spec"]["volumeClaimPolicies"] = [{"templates": [{**claim, "metadata": {"name": "v0"}} for _ in range(size)]}]
    return made


@_kind("containers that start files of volumes")
def _started_files(size: int) -> Json:
    made = _one("torch", _TORCHRUN)
    volumes = [{"name": f"v{n}", "configMap": {"name": "a", "defaultMode": 493}} for n in range(size)]
    _pod(made)["volumes"] = volumes
    _pod(made)["containers"] += [
        {
            "name": f"more-{n}",
            "image": "a:1",
            "command": ["/v/run"],
            "volumeMounts": [{"name": f"v{size - 1}", "mountPath": "/v"}],
        }
        for n in range(size)
    ]
    return made


@_kind("mounts of unknown volumes")
def _unknown_volumes(size: int) -> Json:
    made = _one("torch", _TORCHRUN)
    _pod(made)["containers"][0]["volumeMounts"] = [{"name": f"v{n}", "mountPath": f"/m/{n}"} for n in range(size)]
    return made


@_kind("claims of one pod")
def _claims(size: int) -> Json:
    return _claiming(1, size, "torch", _TORCHRUN)


@_kind("claims of one pod that have no entry")
def _unknown_claims(size: int) -> Json:
    return _one("torch", {**_TORCHRUN, "resources": {"claims": [{"name": f"c{n}"} for n in range(size)]}})


@_kind("ports")
def _ports(size: int) -> Json:
    return _one("vllm", {**_VLLM, "ports": [{"containerPort": 1 + n, "name": f"p{n}"} for n in range(size)]})


@_kind("resources")
def _resources(size: int) -> Json:
    return _one("torch", {**_TORCHRUN, "resources": {"limits": {f"nvidia.com/mig-{n}g": "1" for n in range(size)}}})


@_kind("tolerations and spreads")
def _tolerations(size: int) -> Json:
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    more = {
        "tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(size)],
        "topologySpreadConstraints": [{**spread, "topologyKey": f"z{n}"} for n in range(size)],
    }
    return _labelled(_one("torch", _TORCHRUN, **more), {"muster.dev/role": "sampler"})


@_kind("affinity")
def _affinity(size: int) -> Json:
    terms = [{"matchExpressions": [{"key": f"k{n}", "operator": "In", "values": ["a", "b"]}]} for n in range(size)]
    needed = {"nodeSelectorTerms": terms}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": needed}}
    return _labelled(_one("torch", _TORCHRUN, affinity=affinity), {"muster.dev/role": "sampler"})


# -- words and texts

_WORDS: dict[str, tuple[str, Json, Callable[[int], str]]] = {
    "of torchrun": ("torch", _TORCHRUN, lambda n: f"--nnodes={n}"),
    "of trl, unknown": ("trl", _TRL, lambda n: f"--unknown_{n}=1"),
    "of trl, abbreviated": ("trl", _TRL, lambda n: f"--per_device_train_b={n}"),
    "of trl, of numbers": ("trl", _TRL, lambda n: f"--learning_rate=1e-{n}"),
    "of trl, references": ("trl", _TRL, lambda n: f"--output_dir=$(A{n})"),
    "of vllm, unknown": ("vllm", _VLLM, lambda n: f"--unknown-{n}=1"),
    "of vllm, abbreviated": ("vllm", _VLLM, lambda n: f"--tensor-para={n}"),
    "of vllm, JSON": ("vllm", _VLLM, lambda n: f'--hf-overrides={{"a":{n}}}'),
    "of torchtune": (
        "torchtune",
        {"command": ["tune", "run", "full_finetune_distributed", "--config", "a"]},
        lambda n: f"a.b{n}=1",
    ),
    "of accelerate": (
        "torch",
        {"command": ["accelerate", "launch"], "resources": _GPUS},
        lambda n: f"--num_processes={n}",
    ),
    "of a wrapper": ("torch", {"command": ["env"], "resources": _GPUS}, lambda n: f"A{n}=1"),
    "of wrappers": ("torch", {"command": ["nohup"], "resources": _GPUS}, lambda _: "nohup"),
    "of shells": ("torch", {"command": ["bash"], "resources": _GPUS}, lambda n: ("-c", "bash")[n % 2]),
    "of secrets": ("trl", _TRL, lambda n: f"--hub_token=planted-{n:08}-secret"),
    "of secrets apart": ("trl", _TRL, lambda n: ("--hub_token", f"planted-{n:08}-secret")[n % 2]),
    "of URLs with passwords": ("trl", _TRL, lambda n: f"--dataset_name=https://me:planted-{n:08}@example.org/x"),
}
for _name, (_framework, _container, _word) in _WORDS.items():
    _kind(f"words {_name}")(
        partial(
            lambda n, f, c, w: _containers(f, c, "args", [w(each) for each in range(n)]),
            f=_framework,
            c=_container,
            w=_word,
        )
    )

_LAUNCH = "torchrun --nproc_per_node=2 a.py\n"
_TEXTS = {
    "launches": _LAUNCH,
    "trl": "trl sft --model_name_or_path m\n",
    "assignments": "A=1 ",
    "exports": "export A=1\n",
    "exports that double": "export A=$A$A\n",
    "substitutions": "$(a) ",
    "nested substitutions": "$(",
    "backticks": "`a` ",
    "nested quotes": "'\"",
    "heredocs": "cat <<E\na\nE\n",
    "nested if": "if a; then ",
    "functions": "f() { a; }\n",
    "cases": "case a in b) c;; esac\n",
    "pipes": "a|",
    "background": "python a.py &\n",
    "nested shells": "bash -c 'sh -c \"",
    "secrets": "export HF_TOKEN=planted-secret-x\n",
    "words of secrets": "token ",
    "flags of secrets": "--hub_token x ",
    "brackets": "[",
    "URLs": "http://a:b@c ",
    "base64": "c2VjcmV0IHRva2VuOiBhYmNkZWZnaGlqa2w= ",
    "YAML": "token: x\n",
}


def _repeated(piece: str, size: int) -> str:
    return piece * (size // len(piece))


for _name, _piece in _TEXTS.items():
    _kind(f"a script of {_name}")(
        partial(lambda n, p: _one("torch", {**_BASH, "command": ["bash", "-c", _repeated(p, n)]}), p=_piece)
    )


@_kind("a name")
def _names(size: int) -> Json:
    made = _jobset(100, "torch", _same(_TORCHRUN))
    for part in made["spec"]["replicatedJobs"]:
        part["name"] += "a" * size
    return made


@_kind("numbers that nobody reads")
def _numbers(size: int) -> Json:
    made = _one("torch", _TORCHRUN)
    made["spec"]["other"] = [list(some) for some in _spread(list(range(size)), 4_000)]
    return made


@_kind("labels and annotations")
def _labels(size: int) -> Json:
    made = _one("torch", _TORCHRUN)
    made["metadata"]["labels"] |= {f"example.org/a{n}": "x" for n in range(size)}
    made["metadata"]["annotations"] = {f"example.org/api-key-{n}": f"planted-{n:08}" for n in range(size)}
    return made


_NOTES: dict[str, tuple[str, Callable[[int], str]]] = {
    "claims": (
        devices.CLAIMS,
        lambda n: json.dumps([{"name": f"a{i}", "resourceClaimTemplateName": "two"} for i in range(n)]),
    ),
    "claims of containers": (
        devices.CLAIMS,
        lambda n: json.dumps([{"name": "a", "resourceClaimTemplateName": "two", "containerNames": ["x"] * n}]),
    ),
    "memory": (
        "muster.dev/applied",
        lambda n: json.dumps({"v": 1, "fields": {f"/spec/replicatedJobs/0/a{i}": "0" for i in range(n)}}),
    ),
    "features": ("muster.dev/vllm-features", lambda n: "lora," * n),
    "brackets": (devices.CLAIMS, lambda n: "[" * n),
}
for _name, (_key, _note) in _NOTES.items():

    def _noted(size: int, key: str = _key, note: Callable[[int], str] = _note) -> Json:
        made = _one("torch", _TORCHRUN)
        made["metadata"]["annotations"] = {key: note(size)}
        return made

    _kind(f"an annotation of {_name}")(_noted)


# -- TrainJobs


def _runtime(framework: str = "trl", container: Json | None = None, **pod: Any) -> Json:
    return jobs.make_runtime("much", framework=framework, container=container or dict(_TRL), pod=pod, nodes=2)


@_kind("TrainJob: env of it and of its runtime")
def _both_env(size: int) -> tuple[Json, ...]:
    env = [{"name": f"A{n}", "value": "x"} for n in range(size)]
    return _trainjob(_runtime(container={**_TRL, "env": env}), env=env, numNodes=2)


@_kind("TrainJob: words")
def _train_words(size: int) -> tuple[Json, ...]:
    return _trainjob(_runtime(), command=["trl", "sft"], args=[f"--unknown_{n}=1" for n in range(size)])


def _patch(number: int, pod: Json) -> Json:
    inner = {"spec": {"template": {"spec": pod}}}
    parts = [{"name": "node", "template": inner}]
    return {"manager": f"team/{number}", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": parts}}}}


@_kind("TrainJob: patches")
def _patches(size: int) -> tuple[Json, ...]:
    pod = {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    return _trainjob(_runtime(), spec={"runtimePatches": [_patch(n, pod) for n in range(size)]}, numNodes=2)


@_kind("TrainJob: env of 50 patches")
def _patched_env(size: int) -> tuple[Json, ...]:
    env = [{"name": f"A{n}", "value": "x"} for n in range(size)]
    pod = {"containers": [{"name": "node", "env": env}]}
    return _trainjob(_runtime(), spec={"runtimePatches": [_patch(n, pod) for n in range(50)]}, numNodes=2)


@_kind("TrainJob: volumes of 50 patches")
def _patched_volumes(size: int) -> tuple[Json, ...]:
    pod = {"volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(size)]}
    return _trainjob(_runtime(), spec={"runtimePatches": [_patch(n, pod) for n in range(50)]}, numNodes=2)


@_kind("TrainJob: patches of containers that its runtime has")
def _patched_containers(size: int) -> tuple[Json, ...]:
    more = [{"name": f"more-{n}", "image": "a:1"} for n in range(size)]
    made = _runtime()
    part = made["spec"]["template"]["spec"]["replicatedJobs"][0]
    part["template"]["spec"]["template"]["spec"]["containers"] += more
    patches = [_patch(n, {"containers": [{"name": "gone"}]}) for n in range(size)]
    return _trainjob(made, spec={"runtimePatches": patches}, numNodes=2)


@_kind("TrainJob: replicated jobs of the runtime")
def _runtime_parts(size: int) -> tuple[Json, ...]:
    made = _runtime()
    parts = made["spec"]["template"]["spec"]["replicatedJobs"]
    parts += [{**copy.deepcopy(parts[0]), "name": f"more-{n}"} for n in range(size)]
    return _trainjob(made, numNodes=2)


# -- trainings with samplers


def _sampler(name: str, container: Json, **pod: Any) -> Json:
    made = _part(jobs.make_jobset()["spec"]["replicatedJobs"][0], name, container, pod)
    made["template"]["metadata"] = {"labels": {"muster.dev/role": "sampler"}}
    return made


def _grpo(trainers: int, samplers: list[Json], container: Json | None = None, **pod: Any) -> Json:
    made = _labelled(_jobset(trainers, "trl", _same({**_GRPO, **(container or {})})), {"muster.dev/role": "trainer"})
    for number in range(trainers):
        _pod(made, number).update(copy.deepcopy(pod))
    made["spec"]["replicatedJobs"] += samplers
    return made


_SERVER = {**_VLLM, "command": ["vllm", "serve"]}


@_kind("samplers of one trainer")
def _samplers(size: int) -> Json:
    return _grpo(1, [_sampler(f"sampler-{n}", _SERVER) for n in range(size)])


@_kind("trainers of one sampler")
def _sampled_trainers(size: int) -> Json:
    return _grpo(size, [_sampler("sampler", _SERVER)])


@_kind("32 trainers, samplers")
def _few_trainers(size: int) -> Json:
    return _grpo(32, [_sampler(f"sampler-{n}", _SERVER) for n in range(size)])


@_kind("trainers and as many samplers")
def _pairs(size: int) -> Json:
    return _grpo(size, [_sampler(f"sampler-{n}", _SERVER) for n in range(size)])


@_kind("words of a sampler")
def _sampler_words(size: int) -> Json:
    return _grpo(1, [_sampler("sampler", {**_SERVER, "args": [f"--unknown-{n}=1" for n in range(size)]})])


@_kind("words of a trainer with a sampler")
def _trainer_words(size: int) -> Json:
    return _grpo(1, [_sampler("sampler", _SERVER)], {"args": [f"--unknown_{n}=1" for n in range(size)]})


@_kind("words of 31 trainers with a sampler")
def _trainers_words(size: int) -> Json:
    return _grpo(31, [_sampler("sampler", _SERVER)], {"args": [f"--unknown_{n}=1" for n in range(size)]})


@_kind("volumes of a trainer and its sampler")
def _shared_volumes(size: int) -> Json:
    pod = {"volumes": [{"name": f"v{n}", "persistentVolumeClaim": {"claimName": "a"}} for n in range(size)]}
    mounts = {"volumeMounts": [{"name": f"v{n}", "mountPath": f"/m/{n}"} for n in range(size)]}
    return _grpo(1, [_sampler("sampler", {**_SERVER, **mounts}, **pod)], mounts, **pod)


@_kind("claims of 31 trainers and a sampler")
def _shared_claims(size: int) -> Json:
    entries = [{"name": f"c{n}", "resourceClaimName": f"a{n}"} for n in range(size)]
    used = {"resources": {"claims": [{"name": f"c{n}"} for n in range(size)]}}
    return _grpo(31, [_sampler("sampler", {**_SERVER, **used}, resourceClaims=entries)], used, resourceClaims=entries)


@_kind("env of 31 trainers and a sampler")
def _shared_env(size: int) -> Json:
    env = {"env": [{"name": f"A{n}", "value": "x"} for n in range(size)]}
    return _grpo(31, [_sampler("sampler", {**_SERVER, **env})], env)


@_kind("TrainJob: samplers of the runtime")
def _runtime_samplers(size: int) -> tuple[Json, ...]:
    made = _runtime("trl", {"command": _GRPO["command"], "resources": _GPUS})
    parts = made["spec"]["template"]["spec"]["replicatedJobs"]
    parts[:0] = [_sampler(f"sampler-{n}", _SERVER) for n in range(size)]
    return _trainjob(made, numNodes=2)


@_kind("TrainJob: env of it and of its sampler")
def _sampled_env(size: int) -> tuple[Json, ...]:
    env = [{"name": f"A{n}", "value": "x"} for n in range(size)]
    made = _runtime("trl", {"command": _GRPO["command"], "resources": _GPUS, "env": env})
    made["spec"]["template"]["spec"]["replicatedJobs"][:0] = [_sampler("sampler", {**_SERVER, "env": env})]
    return _trainjob(made, env=env, numNodes=2)


KINDS: tuple[str, ...] = tuple(_EVERY)
"""Names of all kinds."""


def made(name: str, size: int) -> Largest:
    """Return the job of a kind with so much of it."""
    found = _EVERY[name](size)
    document, *cluster = found if isinstance(found, tuple) else (found,)
    return Largest(name, size, document, (*cluster, devices.template(), devices.device_class()))


def documents(*parts: str) -> Iterator[Largest]:
    """Yield the largest document of each kind, or of those whose names have one of these parts."""
    for name, make in _EVERY.items():
        if not parts or any(part in name for part in parts):
            yield _grown(name, make)


def _grown(name: str, make: Callable[[int], Any]) -> Largest:
    """Return the largest document of a kind: the last size that is within the budget, by bisection."""
    fits, beyond = 1, 2
    while beyond <= _MOST and _is_within(make(beyond)):
        fits, beyond = beyond, beyond * 2
    while beyond - fits > max(1, fits // 256):
        middle = (fits + beyond) // 2
        fits, beyond = (middle, beyond) if _is_within(make(middle)) else (fits, middle)
    return made(name, fits)


def _is_within(found: Any) -> bool:
    every = found if isinstance(found, tuple) else (found,)
    return all(len(orjson.dumps(each)) <= BODY and budgets.check(each, POLICY.budget) is None for each in every)
