"""Where cases begin: the jobs of the corpus, the examples, and the worlds of the other tests, each with its cluster."""

from __future__ import annotations

import functools
import json
import marshal
from pathlib import Path

import yaml

from tests.corpus import cases as corpus
from tests.frameworks import sampled_jobs
from tests.fuzz import cases
from tests.support import devices, jobs, upstream

__all__ = ["draw", "follow", "of", "worlds"]

ROOT = Path(__file__).parents[2]
_JOBS = ("TrainJob", "JobSet")
_FILES = ("manifests/examples", "manifests/profiles")


def draw(random):
    """A world of its own, to be changed: `subjects` are jobs, `cluster` all else, `name` says where it is from."""
    names = worlds()
    return of(names[random.randrange(len(names))])


def of(name):
    """The world of this name, to be changed."""
    return marshal.loads(_world(name))  # noqa: S302 - our own bytes, ten times faster than copy


@functools.cache
def worlds():
    """The names of all worlds."""
    examples = [str(path.relative_to(ROOT)) for folder in _FILES for path in sorted((ROOT / folder).glob("*.yaml"))]
    own = [f"support/{name}" for name in _OWN]
    # The many files of the corpus differ in launches mostly, so each other kind counts several times.
    return [*(f"corpus/{name}" for name in corpus.names()), *examples * 5, *own * 25]


@functools.cache
def _world(name):
    folder, _, rest = name.partition("/")
    if folder == "support":
        found = _OWN[rest]()
    else:
        path = corpus.path_of(rest) if folder == "corpus" else ROOT / name
        found = [each for each in yaml.load_all(path.read_text(), _loader()) if isinstance(each, dict)]
    # Dates and other things that only YAML has do not reach an API server.
    found = json.loads(json.dumps(found, default=str))
    for each in found:
        each.setdefault("metadata", {}).setdefault("namespace", jobs.NAMESPACE)
    subjects = [each for each in found if each.get("kind") in _JOBS]
    cluster = [each for each in found if each.get("kind") not in _JOBS]
    subjects = subjects or [jobs.make_trainjob()]
    return marshal.dumps({"name": name, "subjects": subjects, "cluster": [*cluster, *_missing(subjects, cluster)]})


def _loader():
    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def _missing(subjects, cluster):
    """The shipped runtimes that a job names and its file does not hold."""
    given = {each["metadata"].get("name") for each in cluster}
    wanted = {((each.get("spec") or {}).get("runtimeRef") or {}).get("name") for each in subjects} - given
    return [document for name, document in _shipped().items() if name in wanted]


@functools.cache
def _shipped():
    return jobs.shipped_runtimes()


def follow(trainjob, cluster):
    """The JobSet that Trainer makes of a TrainJob, its cluster then, or None where that cannot be."""
    runtime = next((each for each in cluster if each.get("kind", "").endswith("TrainingRuntime")), None)
    try:
        owner = upstream.default_trainjob(trainjob)
        owner["metadata"].setdefault("uid", jobs.UID)
        owner["metadata"].setdefault("name", "llama")
        jobset = upstream.build_jobset(owner, cases.copied(runtime))
    except (KeyError, TypeError, AttributeError, StopIteration):
        return None
    return jobset, [*cluster, owner, snapshot(owner, runtime)]


def snapshot(owner, runtime):
    """The ConfigMap in which Trainer freezes a runtime."""
    reference = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "controller": True}
    reference |= {"name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    metadata = {"name": f"{owner['metadata']['name']}-runtime-snapshot", "namespace": owner["metadata"]["namespace"]}
    metadata["ownerReferences"] = [reference]
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": json.dumps(runtime)}}


def _claims():
    return [
        devices.two_jobs(
            trainer={"annotations": {devices.PROFILE: "quad"}}, sampler={"annotations": {devices.PROFILE: "seats"}}
        ),
        jobs.make_trainjob(
            metadata={"annotations": {devices.PROFILE: "quad"}}, command=["torchrun", "x.py"], numNodes=2
        ),
        devices.device_class(),
        devices.seated("seats-0", "p1", "p2"),
        devices.seated("seats-1", "p3"),
        devices.template(),
        devices.template("own", 1, "ResourceClaim"),
    ]


def _written_claims():
    wanted = [{"name": "gpu", "profile": "plain"}, {"name": "mine", "resourceClaimTemplateName": "two"}]
    job = jobs.make_jobset(framework="torch", container={"command": ["torchrun", "x.py"]})
    job["metadata"]["annotations"] = {devices.CLAIMS: json.dumps(wanted)}
    return [job, devices.device_class(), devices.template()]


def _roles():
    job = devices.two_jobs(
        trainer={"labels": {"muster.dev/role": "trainer"}}, sampler={"labels": {"muster.dev/role": "sampler"}}
    )
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "spec": {"taints": []},
        "status": {"allocatable": {"memory": "48Gi", "cpu": "8"}},
    }
    nodes = [
        {**node, "metadata": {"name": f"n{n}", "labels": {"pool": pool}}}
        for n, pool in enumerate(("training", "sampling"))
    ]
    return [job, *nodes]


def _server():
    return [jobs.make_jobset(container={"command": ["vllm", "serve", "org/model"], "ports": [{"containerPort": 8000}]})]


def _trl():
    return [jobs.make_trainjob(command=["trl", "sft"], args=["--model_name_or_path=m"], numNodes=2, numProcPerNode=2)]


def _sampled():
    """A training that people wrote with its sampler, and one of a runtime that has one."""
    jobset = sampled_jobs.by_hand()
    jobset["metadata"].update(name="rl")
    runtime = sampled_jobs.sampled()
    trainjob = jobs.make_trainjob(
        runtime=runtime["metadata"]["name"], args=list(sampled_jobs.ARGS), numNodes=2, env=[{"name": "A", "value": "b"}]
    )
    return [jobset, trainjob, runtime]


def _rivals():
    """A training with several servers beside it, one of which is asked by its address."""
    url = "--vllm_server_base_url=http://rl-rollout-0-0.rl:8001"
    asked = sampled_jobs.sampler("rollout", args=["--model=Qwen/Qwen2.5-0.5B", "--port=8001"])
    judge = sampled_jobs.sampler("judge", labels={}, command=["vllm", "serve", "org/judge"])
    shell = ["bash", "-c", 'vllm serve m --weight-transfer-config \'{"backend":"nccl"}\'']
    jobset = sampled_jobs.by_hand(asked, sampled_jobs.sampler("other", command=shell), judge)
    jobset["metadata"].update(name="rl")
    jobs.container_of(jobset, -1)["args"] += ["--vllm_mode=server", url]
    return [jobset]


def _trainings():
    """Two trainings that ask one sampler, of which one sends weights by files."""
    jobset = sampled_jobs.by_hand()
    jobset["metadata"].update(name="rl")
    jobs_of = jobset["spec"]["replicatedJobs"]
    jobs_of.append({**cases.copied(jobs_of[-1]), "name": "second"})
    jobs.container_of(jobset, -1)["env"] = [{"name": "MUSTER_WEIGHTS_FOLDER", "value": "/shared"}]
    return [jobset]


def _adapters():
    """A program of the author's own that sends adapters to a sampler, by files."""
    env = [{"name": "MUSTER_WEIGHTS_FOLDER", "value": "/shared/weights"}]
    mounts = {"volumeMounts": [{"name": "shared", "mountPath": "/shared"}]}
    pod = {"volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]}
    server = ["python3", "-m", "muster_weights.sampler.supervise", "vllm", "serve", "--enable-lora", "--max-loras=4"]
    command = ["torchrun", "rl.py", "--use_peft", "--lora_r=32", "--max_staleness=2", "--output_dir=/shared/out"]
    sampler = sampled_jobs.sampler(command=server, env=env, pod=pod, **mounts)
    jobset = sampled_jobs.by_hand(sampler, command=command, env=list(env), pod=pod, **mounts)
    jobset["metadata"].update(name="rl", annotations={"muster.dev/vllm-features": "lora"})
    return [jobset]


_OWN = {
    "claims": _claims,
    "written": _written_claims,
    "roles": _roles,
    "server": _server,
    "trl": _trl,
    "sampled": _sampled,
    "rivals": _rivals,
    "adapters": _adapters,
    "trainings": _trainings,
}
