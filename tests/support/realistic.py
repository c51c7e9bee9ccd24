"""Random jobs as users write them: every framework, every way of launching, numbers, devices, env, and odd extras.

A drawn case is a runtime, a TrainJob that names it, and the JobSet that Trainer would make from both.
"""

from __future__ import annotations

import copy

from hypothesis import strategies as st

from tests.support import jobs, upstream

RUNTIMES = jobs.shipped_runtimes()
COMMANDS = (
    None,
    ["trl", "sft"],
    ["trl", "grpo"],
    ["trl", "env"],
    ["trl"],
    ["python", "-m", "trl.scripts.dpo"],
    ["torchrun", "-m", "trl.scripts.sft"],
    ["torchrun", "--nproc-per-node=2", "trl", "sft"],
    ["torchrun", "--nnodes", "1:4", "--max-restarts=3", "train.py"],
    ["torchrun", "train.py"],
    ["python", "train.py"],
    ["bash", "-c", "torchrun train.py"],
    ["bash", "-c", "echo hello"],
    ["accelerate", "launch", "train.py"],
    ["tune", "run"],
    ["tune", "run", "full_finetune_distributed", "--config", "llama3_2/1B_full"],
    ["vllm", "serve", "org/model"],
    ["/entrypoint.sh"],
)
ARGUMENTS = (
    None,
    [],
    ["--model_name_or_path=m", "--dataset_name", "d"],
    ["sft", "--model_name_or_path=m"],
    ["--accelerate_config", "fsdp2", "--learning_rate", "1e-5"],
    ["--accelerate_config=zero3", "--bf16"],
    ["--num_processes", "8", "--learning_rate=1"],
    ["dataset.packed=True", "model.lora_attn_modules=[q_proj]"],
    ["epochs=1"],
    ["--model=m", "--port", "9000"],
)
RESOURCES = (
    None,
    {},
    {"limits": {"nvidia.com/gpu": 1}},
    {"limits": {"nvidia.com/gpu": "4"}, "requests": {"cpu": "500m"}},
    {"limits": {"nvidia.com/mig-1g.10gb": 2, "cpu": "8"}},
    {"requests": {"memory": "8Gi"}},
    {"requests": {"cpu": "3"}},
)
ENV = (
    {"name": "HF_HOME", "value": "/cache"},
    {"name": "MASTER_PORT", "value": "29600"},
    {"name": "PET_RDZV_BACKEND", "value": "c10d"},
    {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    {"name": "FSDP_VERSION", "value": "1"},
)
ANNOTATIONS = {
    "muster.dev/rendezvous": ("static", "c10d"),
    "muster.dev/trl-method": ("sft", "dpo"),
    "muster.dev/vllm-features": ("sleep", "lora", "sleep,lora"),
    "team.example.org/note": ("x",),
}
UNKNOWN = "x-unknown"


def _optional(values):
    return st.sampled_from(values)


def _subset(values, most=3):
    return st.lists(st.sampled_from(values), max_size=most, unique_by=lambda entry: entry["name"])


def annotations():
    """Some of Muster's annotations, and others."""
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in ANNOTATIONS.items()})


@st.composite
def runtimes(draw):
    """A shipped runtime, or a generic one with claims, network and labels of all kinds."""
    if draw(st.booleans()):
        return copy.deepcopy(RUNTIMES[draw(st.sampled_from(sorted(RUNTIMES)))])
    container, pod = {"env": draw(_subset(ENV))}, {}
    command, resources = draw(_optional(COMMANDS)), draw(_optional(RESOURCES))
    if command:
        container["command"] = command
    if resources is not None:
        container["resources"] = resources
    if draw(st.booleans()):
        container["resources"] = {**container.get("resources", {}), "claims": [{"name": "gpus"}]}
        pod["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
    return jobs.make_runtime(
        "custom",
        framework=draw(st.sampled_from(("torch", "trl", "torchtune", "vllm", "jax", None))),
        container=container,
        pod=pod,
        nodes=draw(st.integers(1, 3)),
        network=draw(st.sampled_from((None, {"subdomain": "meet"}, {"publishNotReadyAddresses": False}))),
        annotations=draw(annotations()),
    )


@st.composite
def trainjobs(draw, runtime):
    """A TrainJob of this runtime."""
    wanted = {
        "command": draw(_optional(COMMANDS)),
        "args": draw(_optional(ARGUMENTS)),
        "numNodes": draw(st.sampled_from((None, 1, 2, 3))),
        "numProcPerNode": draw(st.sampled_from((None, None, 1, 2))),
        "resourcesPerNode": draw(_optional(RESOURCES)),
        "env": draw(_subset(ENV)) or None,
        "image": draw(st.sampled_from((None, "example.org/other:2"))),
    }
    job = jobs.make_trainjob(
        runtime=runtime["metadata"]["name"],
        metadata={"uid": jobs.UID, "annotations": draw(annotations())},
        **{member: copy.deepcopy(value) for member, value in wanted.items() if value is not None},
    )
    if draw(st.booleans()):
        job["spec"]["suspend"] = True
        job["spec"]["runtimePatches"] = [
            {"manager": "team.example.org/m", "trainingRuntimeSpec": {"template": {"spec": {"replicatedJobs": []}}}}
        ]
    return job


@st.composite
def cases(draw):
    """(TrainJob, its runtime)."""
    runtime = draw(runtimes())
    return draw(trainjobs(runtime)), runtime


@st.composite
def servers(draw):
    """A JobSet without Trainer."""
    container = {"env": draw(_subset(ENV))}
    command, args, resources = draw(_optional(COMMANDS)), draw(_optional(ARGUMENTS)), draw(_optional(RESOURCES))
    container |= {"command": command} if command else {}
    container |= {"args": args} if args else {}
    container |= {"resources": resources} if resources else {}
    return jobs.make_jobset(
        framework=draw(st.sampled_from(("torch", "trl", "torchtune", "vllm", "jax"))),
        nodes=draw(st.integers(1, 3)),
        container=copy.deepcopy(container),
        metadata={"annotations": draw(annotations())},
    )


@st.composite
def documents(draw):
    """(document, cluster): a TrainJob, the JobSet that Trainer makes of it, or a JobSet without Trainer."""
    kind = draw(st.sampled_from(("TrainJob", "JobSet", "server")))
    if kind == "server":
        return draw(servers()), []
    trainjob, runtime = draw(cases())
    if kind == "TrainJob":
        if draw(st.booleans()):
            trainjob["metadata"]["generateName"] = f"{trainjob['metadata'].pop('name')}-"
        return trainjob, [runtime]
    return upstream.build_jobset(upstream.default_trainjob(trainjob), runtime), [runtime, trainjob]


def objects(node, path=()):
    """Yield every place in a document where Kubernetes would keep an unknown member: not maps of free keys."""
    free = {"labels", "annotations", "limits", "requests", "nodeSelector"}
    if isinstance(node, dict) and not (path and path[-1] in free):
        yield path
        for key, value in node.items():
            yield from objects(value, (*path, key))
    elif isinstance(node, list):
        for index, value in enumerate(node):
            yield from objects(value, (*path, index))
