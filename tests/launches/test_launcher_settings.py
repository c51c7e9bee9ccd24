"""Options of which a launcher takes a few words, and variables that Kubernetes leaves as they are written."""

from __future__ import annotations

import pytest

from muster.strategies.launches import launches, variables
from tests.frameworks.builders import found, gpus, jobset, replicated_job, runtime, trainjob


def refused(line):
    return [option for option, _, _ in variables.refused_settings(launches.parse(tuple(line.split())))]


REFUSED = {
    "a method of threads": ("torchrun --start-method=thread x.py", "start_method"),
    "a binding": ("torchrun --numa-binding all x.py", "numa_binding"),
    "streams": ("torchrun --redirects 4 x.py", "redirects"),
    "streams of ranks": ("torchrun -t 0:3,1:9 x.py", "tee"),
    "streams in words": ("tune run --nproc_per_node 2 --tee all recipe --config c", "tee"),
    "a precision": ("accelerate launch --mixed_precision=bfloat16 x.py", "mixed_precision"),
    "a backend in capitals": ("accelerate launch --dynamo_backend INDUCTOR x.py", "dynamo_backend"),
    "restarts below 0": ("torchrun --max-restarts=-1 x.py", "max_restarts"),
    "ranks in words": ("torchrun --local-ranks-filter all x.py", "local_ranks_filter"),
    "a module that is not a module": ("torchrun --no-python -m x", "no_python"),
    "a version": ("accelerate launch --use_fsdp --fsdp_version 3 x.py", "fsdp_version"),
}


@pytest.mark.parametrize(("line", "option"), REFUSED.values(), ids=REFUSED)
def test_a_word_that_the_launcher_does_not_take_is_refused(line, option):
    assert refused(line) == [option]


TAKEN = (
    "torchrun --start-method fork --numa-binding=node -r 3 --tee 0:3,1:0 x.py --mixed_precision bfloat16",
    "torchrun --redirects=$(STREAMS) --start-method $(METHOD) x.py",
    "accelerate launch --mixed_precision fp8 --fp8_format E4M3 --dynamo_backend inductor --tee 0 x.py --tee all",
    "torchrun --max-restarts 3 --local-ranks-filter 0,2 --no-python x.sh",
    "deepspeed --num_gpus 2 x.py --start-method thread",
    "python x.py --redirects 9",
)


@pytest.mark.parametrize("line", TAKEN)
def test_what_it_takes_or_nobody_knows_is_not_spoken_of(line):
    assert refused(line) == []


def said(command, rule, *, env=(), own=False, resources=None):
    trainer = {"command": command.split(), "resourcesPerNode": resources or gpus(2), "env": list(env)}
    document = trainjob({**trainer, "image": "their/own:1"} if own else trainer)
    governing = runtime()
    return [each.severity.value for each in found("torch", document, governing) if each.rule == rule]


def test_an_image_of_ones_own_may_hold_another_accelerate_and_no_other_torchrun():
    line = "accelerate launch --num_processes 2 --mixed_precision fp4 x.py"
    assert said(line, "core/launch") == ["error"]
    assert said(line, "core/launch", own=True) == ["warning"]
    assert said("torchrun --tee 5 x.py", "core/launch", own=True) == ["error"]


def test_gpus_of_another_maker_are_not_counted():
    assert said("torchrun --nproc-per-node xpu x.py", "core/launch") == ["error"]
    intel = {"limits": {"gpu.intel.com/i915": 2}}
    assert said("torchrun --nproc-per-node xpu x.py", "core/launch", resources=intel) == []


def env_of(*pairs):
    return [{"name": name, "value": value} for name, value in pairs]


LINE = "torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=$(END) x.py"


def of_jobset(env, command=None):
    training = {"name": "node", "command": command or LINE.split(), "resources": gpus(2), "env": env}
    document = jobset(replicated_job("node", training, parallelism=2, completions=2))
    return [each.severity.value for each in found("torch", document) if each.rule == "core/unset-variable"]


def test_a_variable_that_names_one_behind_it_is_refused():
    behind = env_of(("END", "$(HEAD):29500"), ("HEAD", "set-node-0-0.set"))
    assert of_jobset(behind) == ["error"]
    assert of_jobset(behind[::-1]) == []
    assert of_jobset(behind, ["bash", "-c", "torchrun --nnodes=2 --rdzv-endpoint=$END x.py"]) == ["error"]


def test_a_variable_that_the_shell_sets_anew_or_that_trainer_writes_behind_is_not_spoken_of():
    behind = env_of(("END", "$(HEAD):29500"), ("HEAD", "set-node-0-0.set"))
    shell = "export END=set-node-0-0.set:29500; torchrun --nnodes=2 --rdzv-endpoint=$END x.py"
    assert of_jobset(behind, ["bash", "-c", shell]) == []
    assert of_jobset(env_of(("END", "$(PET_MASTER_ADDR):29500"), ("PET_MASTER_ADDR", "a"))) == []


OF_PLUGINS = {
    "xgboost": ("DMLC_NUM_WORKER", "PET_NNODES"),
    "mpi": ("OMPI_MCA_plm_rsh_args", "DMLC_NUM_WORKER"),
    "torch": ("PET_NNODES", "OMPI_MCA_plm_rsh_args"),
}


@pytest.mark.parametrize("plugin", OF_PLUGINS)
def test_env_that_the_plugin_of_the_runtime_writes_is_refused(plugin):
    mine, others = OF_PLUGINS[plugin]
    document = trainjob({"command": ["python", "x.py"], "env": env_of((mine, "1"), (others, "1"))})
    governing = runtime(policy={plugin: {}})

    fields = [each.field for each in found("default", document, governing) if each.rule == "core/reserved-env"]
    assert fields == [f"spec.trainer.env[{mine}]"]
