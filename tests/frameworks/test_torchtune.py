"""torchtune beyond the golden cases: what is written by hand, and runtimes that are not Trainer's own."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import (
    enforce,
    found,
    gpus,
    jobset,
    jobset_of,
    refused,
    replicated_job,
    run,
    runtime,
    trainjob,
)

ENDPOINT = "--rdzv_endpoint=job-node-0-0.job:29500"
DATASET = ["dataset=torchtune.datasets.instruct_dataset", "dataset.source=parquet"]
PATHS = ["output_dir=/out", "checkpointer.checkpoint_dir=/model"]
RUNTIMES = [
    "tune",
    "run",
    "--rdzv_endpoint=localhost:29500",
    "full_finetune_distributed",
    "--config",
    "llama3_2/1B_full",
]
LLAMA = "torchtune-llama3.2-1b"


def governed(command=(*RUNTIMES, *DATASET, *PATHS), *, name=LLAMA, count=2, **more):
    return runtime("torchtune", name=name, command=list(command), resources=gpus(count), **more)


def enforced(trainer, governing=None, **more):
    return enforce("torchtune", trainjob(trainer, **more), governing or governed())


# --- `tune run` with a recipe of the user's -------------------------------------------------------------------------

WRITTEN = {
    "a distributed recipe": (
        "tune run lora_finetune_distributed --config c",
        1,
        "tune run {} lora_finetune_distributed --config c",
    ),
    "a distributed recipe on two nodes": (
        "tune run full_finetune_distributed --config c",
        2,
        "tune run {} full_finetune_distributed --config c",
    ),
    "options on two nodes": (
        "tune run --nproc_per_node 2 full_finetune_distributed --config c",
        2,
        "tune run {} --nproc_per_node 2 full_finetune_distributed --config c",
    ),
    "options on one node": ("tune run --nproc_per_node 2 full_finetune_distributed --config c", 1, None),
    "an endpoint": ("tune run --rdzv_endpoint=h:1 full_finetune_distributed --config c", 2, None),
    "an endpoint with dashes": ("tune run --rdzv-endpoint h:1 full_finetune_distributed --config c", 2, None),
    "a recipe for one device": ("tune run full_finetune_single_device --config c", 1, None),
    "a recipe that does not train": ("tune run eleuther_eval --config c", 1, None),
    "a recipe of one's own on two GPUs": (
        "tune run my_recipe.py --config c",
        1,
        "tune run {} my_recipe.py --config c",
    ),
    "a recipe of one's own with its number": ("tune run --nproc_per_node 2 my_recipe.py --config c", 1, None),
    "a recipe of one's own with its number on two nodes": (
        "tune run --nproc_per_node 2 recipes/mine --config c",
        2,
        "tune run {} --nproc_per_node 2 recipes/mine --config c",
    ),
    "a recipe of one's own for one device": ("tune run my_single_device.py --config c", 1, None),
    "a recipe in development": (
        "tune run dev/early_exit_finetune_distributed --config c",
        1,
        "tune run {} dev/early_exit_finetune_distributed --config c",
    ),
    "a recipe that generates": ("tune run generate --config c", 1, None),
    "standalone": ("tune run --standalone full_finetune_distributed --config c", 1, None),
}


@pytest.mark.parametrize(("line", "nodes", "wanted"), WRITTEN.values(), ids=WRITTEN)
def test_a_written_recipe_gets_no_more_than_an_endpoint(line, nodes, wanted):
    out = enforced({"command": line.split(), "args": ["batch_size=1"], "numNodes": nodes})
    assert out.container["command"] == (wanted or line).format(ENDPOINT).split()
    assert out.container["args"] == ["batch_size=1"]


def test_a_recipe_for_one_device_on_several_is_warned_of_with_the_idle_ones():
    out = enforced({"command": ["tune", "run", "full_finetune_single_device", "--config", "c"]}, governed(count=4))
    (finding,) = out.changes.findings
    assert (finding.field, finding.value) == ("spec.trainer.command[2]", "full_finetune_single_device")
    assert "3 of 4 GPUs idle on each node" in finding.message
    assert enforced({"command": ["tune", "run", "full_finetune_distributed", "--config", "c"]}).warnings == []


def test_a_recipe_for_one_device_on_two_nodes_would_train_twice():
    assert judged("tune run lora_finetune_single_device --config c", numNodes=2) == [
        ("torchtune/single-device", "spec.trainer.command[2]")
    ]
    assert judged("tune run eleuther_eval --config c", numNodes=2) == []


def test_a_distributed_recipe_for_one_process_gets_the_torchrun_that_it_needs():
    out = enforced({"command": ["tune", "run", "lora_finetune_distributed", "--config", "c"]}, governed(count=1))
    assert out.container["command"][2] == ENDPOINT
    assert "starts no process group" in out.reasons


def test_cpus_that_trainer_counts_ask_for_no_processes_of_a_recipe_of_ones_own():
    governing = runtime("torchtune", name=LLAMA, resources={"limits": {"cpu": 8}})
    own = {"command": ["tune", "run", "mine.py", "--config", "c"]}
    assert enforced(own, governing).container["command"] == own["command"]
    assert enforced({**own, "numProcPerNode": 2}, governing).container["command"][2] == ENDPOINT


# --- what tune run itself refuses -----------------------------------------------------------------------------------


def judged(line, governing=None, **trainer):
    """(rule, field) of the errors of torchtune's own, after mutation."""
    document = trainjob({"command": line.split(), **trainer})
    errors = refused("torchtune", document, governing or governed())
    return [(rule, field) for field, _, rule in errors if rule.startswith("torchtune/")]


FAULTS = {
    "no config": ("tune run full_finetune_distributed", "no-config", 3),
    "a config in one word": ("tune run full_finetune_distributed --config=c", "no-config", 4),
    "two configs": ("tune run full_finetune_distributed --config a --config b", "two-configs", 7),
    "two recipes": (
        "tune run full_finetune_distributed --config c lora_finetune_distributed",
        "two-recipes",
        6,
    ),
    "two values": ("tune run full_finetune_distributed --config c epochs=1 epochs=2", "twice", 7),
    "options for a recipe for one device": (
        "tune run --nproc_per_node 2 full_finetune_single_device --config c",
        "single-device",
        2,
    ),
    "a flag behind the config": ("tune run full_finetune_distributed --config c --epochs=1", "argument", 6),
    "a word that is not an item": ("tune run full_finetune_distributed --config c epochs", "argument", 6),
    "two signs": ("tune run full_finetune_distributed --config c a=b=c", "argument", 6),
    "a path from the root": ("tune run /workspace/mine.py --config c", "recipe-path", 3),
    "a path from here": ("tune run ./mine.py --config c", "recipe-path", 3),
}


@pytest.mark.parametrize(("line", "rule", "word"), FAULTS.values(), ids=FAULTS)
def test_a_launch_at_which_tune_run_ends_is_refused_at_its_word(line, rule, word):
    assert judged(line) == [(f"torchtune/{rule}", f"spec.trainer.command[{word}]")]


FINE = {
    "the same item twice": "tune run full_finetune_distributed --config c epochs=1 epochs=1",
    "the same config twice": "tune run full_finetune_distributed --config c --config c",
    "an item that is removed": "tune run full_finetune_distributed --config c ~epochs",
    "words that Kubernetes expands": "tune run full_finetune_distributed --config c $(MORE)",
    "flags of a recipe of one's own": "tune run recipes/mine.py --config c --epochs 2 more",
    "an item with a dash": "tune run full_finetune_distributed --config c -x=1",
    "an empty value": "tune run full_finetune_distributed --config c resume=",
    "a download": "tune download meta-llama/Llama-3.2-1B --output-dir /tmp/m",
    "a list": "tune ls",
    "a copy": "tune cp llama3_2/1B_full ./c.yaml",
}


@pytest.mark.parametrize("line", FINE.values(), ids=FINE)
def test_a_launch_that_tune_run_takes_is_not_refused(line):
    assert judged(line) == []


def test_a_jobset_with_no_recipe_is_refused():
    document = jobset(replicated_job("node", {"name": "node", "command": ["tune", "run"]}), framework="torchtune")
    assert [rule for *_, rule in refused("torchtune", document)] == ["torchtune/no-recipe"]


# --- one recipe, where Trainer would make two -----------------------------------------------------------------------

OWN = {
    "behind tune run": (["tune", "run"], "full_finetune_distributed --config c batch_size=2"),
    "behind no command": (None, "full_finetune_distributed --config c batch_size=2"),
    "with options": (["tune", "run"], "--nnodes 1 full_finetune_distributed --config c batch_size=2"),
}


@pytest.mark.parametrize(("command", "args"), OWN.values(), ids=OWN)
def test_a_recipe_in_the_args_is_the_only_one(command, args):
    out = enforced({"args": args.split(), **({"command": command} if command else {})})
    words = out.argv
    assert [word for word in words if word.endswith("_distributed")] == ["full_finetune_distributed"]
    assert words.count("--config") == 1
    assert words[:2] == ["tune", "run"]
    assert out.container["command"] != ["tune", "run"]
    assert words[-len(DATASET + PATHS) - 1 :] == ["batch_size=2", *DATASET, *PATHS]
    assert refused("torchtune", out.document, governed()) == []
    assert len(enforce("torchtune", out.document, governed()).changes) == 0


@pytest.mark.parametrize("recipe", ["mine.py", "recipes/mine"])
def test_a_recipe_of_ones_own_in_the_args_is_the_only_one_too(recipe):
    out = enforced({"command": ["tune", "run"], "args": [recipe, "--config", "c.yaml"], "numNodes": 2})
    assert out.argv == ["tune", "run", ENDPOINT, recipe, "--config", "c.yaml", *DATASET, *PATHS]
    assert refused("torchtune", out.document, governed()) == []


def test_a_recipe_for_one_device_in_the_args_gets_no_rendezvous():
    out = enforced({"args": ["lora_finetune_single_device", "--config", "c", "output_dir=/o"]}, governed(count=1))
    assert out.container["command"] == ["tune", "run", "lora_finetune_single_device"]
    assert out.container["args"] == ["--config", "c", "output_dir=/o", *DATASET, PATHS[1]]


def test_a_config_in_the_args_is_the_only_one_and_chooses_its_recipe():
    out = enforced({"args": ["--config", "llama3_2/1B_lora", "epochs=1"]})
    assert out.container["command"] == ["tune", "run", ENDPOINT, "lora_finetune_distributed", *DATASET, *PATHS]
    assert out.container["args"] == ["--config", "llama3_2/1B_lora", "epochs=1"]
    assert refused("torchtune", out.document, governed()) == []


def test_a_config_in_the_args_replaces_that_of_a_runtime_of_ones_own():
    governing = governed([*RUNTIMES[:4], "--config", "/etc/mine.yaml", "epochs=3"], name="our-tuning")
    out = enforced({"args": ["--config", "llama3_2/1B_full"]}, governing)
    assert out.argv == [*RUNTIMES[:4], "epochs=3", "--config", "llama3_2/1B_full"]


def test_items_of_the_args_win_over_the_runtimes_and_stand_alone():
    governing = governed([*RUNTIMES, "batch_size=4", *PATHS])
    out = enforced({"args": ["batch_size=2"]}, governing)
    assert [word for word in out.argv if word.startswith("batch_size")] == ["batch_size=2"]
    own = governed([*RUNTIMES[:4], "--config", "/etc/mine.yaml", "batch_size=4"], name="our-tuning")
    assert refused("torchtune", trainjob({"args": ["batch_size=2"]}), own) == []


def test_args_of_the_runtime_do_not_win_over_the_jobs_command():
    governing = governed([], args=["full_finetune_distributed", "--config", "a", "epochs=1", "seed=1"])
    out = enforced({"command": ["tune", "run", "lora_finetune_distributed", "--config", "b", "epochs=2"]}, governing)
    assert out.argv == ["tune", "run", ENDPOINT, "lora_finetune_distributed", "--config", "b", "epochs=2", "seed=1"]


def test_a_launch_that_goes_on_in_the_args_gets_its_endpoint_there():
    out = enforced({"command": ["tune"], "args": ["run", "full_finetune_distributed", "--config", "c"]})
    assert out.argv == ["tune", "run", ENDPOINT, "full_finetune_distributed", "--config", "c"]


def test_a_jobset_without_trainer_gets_its_endpoint():
    command = ["tune", "run", "full_finetune_distributed", "--config", "c"]
    document = jobset(
        replicated_job("node", {"name": "node", "command": command}, parallelism=2), framework="torchtune"
    )
    out = enforce("torchtune", document)
    assert out.argv == ["tune", "run", "--rdzv_endpoint=set-node-0-0.set:29500", *command[2:]]
    assert len(enforce("torchtune", out.document).changes) == 0


def test_another_program_is_warned_of_once():
    out = enforced({"command": ["bash", "run.sh"], "numNodes": 2})
    assert (len(out.changes), out.rules) == (0, ["torchtune/not-enforced"])


def test_another_command_of_tune_is_no_training():
    out = enforced({"command": ["tune", "download", "m"]})
    assert len(out.changes) == 0


# --- runtimes of a platform's own -----------------------------------------------------------------------------------

OWN_RUNTIMES = {
    "a model that Trainer does not know": governed(
        [*RUNTIMES[:4], "--config", "mistral/7B_full"], name="torchtune-mistral-7b"
    ),
    "a name that says no model": governed([*RUNTIMES[:4], "--config", "mine.yaml"], name="our-tuning"),
    "a recipe of LoRA's": governed([*RUNTIMES[:3], "lora_finetune_distributed", "--config", "llama3_2/1B_lora"]),
    "a recipe of distillation": governed(
        ["tune", "run", "--rdzv_endpoint=localhost:29500", "knowledge_distillation_distributed", "--config", "x"]
    ),
    "a config of its own": governed([*RUNTIMES[:4], "--config", "/etc/mine.yaml"]),
    "a program of its own": governed(["torchrun", "train.py"]),
}


@pytest.mark.parametrize("governing", OWN_RUNTIMES.values(), ids=OWN_RUNTIMES)
def test_a_runtime_of_ones_own_means_its_command(governing):
    out = enforced({"args": ["batch_size=1", "output_dir=/x"]}, governing)
    assert "command" not in out.container
    assert refused("torchtune", trainjob({"args": ["output_dir=/x"]}), governing) == []


def test_the_endpoint_of_such_a_runtime_is_corrected_on_several_nodes():
    governing = governed([*RUNTIMES[:4], "--config", "mistral/7B_full"], name="torchtune-mistral-7b")
    out = enforced({"numNodes": 2, "args": ["batch_size=1"]}, governing)
    assert out.container["command"] == ["tune", "run", ENDPOINT, *RUNTIMES[3:5], "mistral/7B_full"]
    assert out.container["args"] == ["batch_size=1"]


def test_an_endpoint_of_such_a_runtime_that_is_an_address_stays():
    command = ["tune", "run", "--rdzv_endpoint=store:29500", "full_finetune_distributed", "--config", "x"]
    assert len(enforced({"numNodes": 2}, governed(command, name="our-tuning")).changes) == 0


def test_a_runtime_without_a_command_gets_a_whole_one():
    out = enforced({}, governed([]))
    assert out.container["command"] == ["tune", "run", ENDPOINT, *RUNTIMES[3:]]


def test_a_jobset_of_trainers_keeps_the_command_of_its_trainjob():
    command = ["tune", "run", "full_finetune_distributed", "--config", "c"]
    document = jobset(replicated_job("node", {"name": "node", "command": command}, parallelism=2))
    assert enforce("torchtune", document, governed(), owner=trainjob({})).container["command"] == command


SAID_BEFORE = {
    "items of the runtime": ({"args": ["output_dir=/x"]}, governed()),
    "a config that is missing": ({"command": ["tune", "run"]}, governed(name="torchtune-llama3.3-70b", count=1)),
}


@pytest.mark.parametrize(("trainer", "governing"), SAID_BEFORE.values(), ids=SAID_BEFORE)
def test_what_was_said_of_a_trainjob_is_not_said_again_of_its_jobset(trainer, governing):
    document = trainjob(trainer)
    assert [each.rule.partition("/")[0] for each in found("torchtune", document, governing)] == ["torchtune"]
    assert found("torchtune", jobset_of(document, governing), governing, owner=document) == []


def test_a_label_on_another_policy_is_refused():
    governing = governed(policy={"mpi": {}})
    assert "torchtune/label-disagrees" in [rule for *_, rule in refused("torchtune", trainjob({}), governing)]


def test_all_items_of_a_runtime_are_kept_where_nobody_wrote_a_command():
    governing = governed([*RUNTIMES, "batch_size=4", *DATASET, *PATHS])
    assert enforced({}, governing).container["command"] == [
        *("tune", "run", ENDPOINT, *RUNTIMES[3:], "batch_size=4", *DATASET, *PATHS)
    ]
    assert enforced({"command": ["tune", "run"]}, governing).container["command"][-4:] == [*DATASET, *PATHS]


DATASETS = {
    "none": ([], DATASET),
    "one of its own": (["dataset=mine", "dataset.source=csv"], []),
    "one item of it": (["dataset.source=csv"], DATASET[:1]),
}


@pytest.mark.parametrize(("args", "kept"), DATASETS.values(), ids=DATASETS)
@pytest.mark.parametrize("command", [["tune", "run"], None], ids=["with tune run", "without a command"])
def test_the_dataset_of_the_runtime_is_kept_unless_the_job_brings(args, kept, command):
    out = enforced({"args": args, **({"command": command} if command else {})})
    assert [word for word in out.container["command"] if word.startswith("dataset")] == kept
    assert out.container["args"] == args


# --- counting -------------------------------------------------------------------------------------------------------


def test_memory_of_a_gpu_is_not_taken_for_gpus():
    resources = {"limits": {"nvidia.com/gpumem": 16000, "nvidia.com/gpu": 1}}
    out = enforced({"command": ["tune", "run"], "resourcesPerNode": resources}, governed(count=1))
    assert out.container["command"][2] == "full_finetune_single_device"


def test_a_claimed_device_is_one_that_tune_may_use():
    claim = {"claims": [{"name": "gpu"}], "requests": {"cpu": 8}}
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]}
    governing = runtime("torchtune", name=LLAMA, command=[*RUNTIMES, *PATHS], resources=claim, pod=pod)
    out = enforce("torchtune", trainjob({"command": ["tune", "run"]}), governing, claims={"one": 1})
    assert (out.container["numProcPerNode"], out.container["command"][2]) == (1, "full_finetune_single_device")


def test_a_claim_of_unknown_size_is_taken_for_what_trainer_will_start():
    claim = {"claims": [{"name": "gpu"}], "requests": {"cpu": 8}}
    pod = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "some"}]}
    governing = runtime("torchtune", name=LLAMA, command=[*RUNTIMES, *PATHS], resources=claim, pod=pod)
    out = enforced({"command": ["tune", "run"]}, governing)
    assert out.container["command"][2:4] == [ENDPOINT, "full_finetune_distributed"]
    assert out.rules == ["torchtune/processes"]


def test_a_generated_name_is_met_by_env():
    out = enforced({"command": ["tune", "run"]}, name=None)
    assert out.container["command"][2] == "--rdzv_endpoint=$(MASTER_ADDR):$(MASTER_PORT)"


def test_a_subdomain_and_c10d_reach_tune_run_too():
    governing = governed(network={"subdomain": "net"}, annotations={"muster.dev/rendezvous": "c10d"})
    first, second = run("torchtune", trainjob({"command": ["tune", "run"]}), governing)
    assert first.container["command"][2] == "--rdzv_endpoint=job-node-0-0.net:29500"
    assert (second.env["PET_RDZV_BACKEND"], second.env["PET_RDZV_ID"]) == ("c10d", "job")
    assert (second.env["MUSTER_EXPECTED_WORLD_SIZE"], second.warnings) == ("2", [])


@pytest.mark.parametrize(
    "trainer", [{"command": ["tune", "run"]}, {}, None, {"command": WRITTEN["a distributed recipe"][0].split()}]
)
def test_a_second_pass_changes_nothing(trainer):
    governing = governed()
    first, second = run("torchtune", trainjob(trainer), governing)
    assert len(enforce("torchtune", first.document, governing).changes) == 0
    assert len(enforce("torchtune", second.document, governing, owner=first.document).changes) == 0


def test_a_completed_job_is_still_refused_what_trainer_refuses():
    args = ["output_dir=/x", "model.lora_attn_modules=[q]"]
    errors = refused("torchtune", trainjob({"command": ["tune", "run"], "args": args, "numNodes": 2}), governed())
    assert [field for field, *_ in errors] == ["spec.trainer.numNodes", "spec.trainer.args[0]"]


def test_an_unknown_model_is_refused_with_the_names_that_are_known():
    governing = governed(name="torchtune-gemma2-2b")
    (finding,) = found("torchtune", trainjob({"command": ["tune", "run"]}), governing)
    assert finding.field == "spec.runtimeRef.name"
    assert "-llama3.2-1b" in finding.message


@pytest.mark.parametrize(("count", "warned"), [(1, True), (8, False)])
def test_a_model_that_torchtune_cannot_train_on_one_device_is_warned_about_there(count, warned):
    governing = governed(name="torchtune-llama3.3-70b", count=count)

    said = [str(each) for each in found("torchtune", trainjob({"command": ["tune", "run"]}), governing)]

    assert any("no config llama3_3/70B_full_single_device" in each for each in said) == warned
