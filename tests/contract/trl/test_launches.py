"""What a command line really starts, on nodes with a pretended number of GPUs: the facts that the strategy rests on."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.trl import flags

SCRIPT = ["--model_name_or_path", "m", "--dataset_name", "d", "--output_dir", "o", "--use_cpu", "--bf16", "false"]
MEETING = ["--main_process_ip", "head", "--main_process_port", "29501"]
SHARDED = ("fsdp1", "fsdp2", "zero1", "zero2", "zero3")
SPANNING = (*SHARDED, "multi_gpu")

# Not of the preset: DeepSpeed's launcher sets no number of threads, and puts the working folder on the path.
APART = {"OMP_NUM_THREADS", "PYTHONPATH"}


def pet(processes, **more):
    """What Trainer injects on the second of two nodes."""
    injected = {"NNODES": "2", "NPROC_PER_NODE": str(processes), "NODE_RANK": "1", "MASTER_PORT": "29500"}
    return {f"PET_{k}": v for k, v in {**injected, "MASTER_ADDR": "job-node-0-0.job", **more}.items()}


def torchrun(**more):
    return {"program": "torchrun", "argv": ["-m", "trl.scripts.sft", *SCRIPT], "env": pet(1, **more)}


def trl(gpus, *argv):
    return {"program": "trl", "argv": list(argv), "gpus": gpus, "env": pet(gpus)}


def nodes(gpus, *, rank="1"):
    """The flags that make `accelerate launch` span two nodes."""
    asked = ["--num_machines", "2", "--num_processes", str(2 * gpus)]
    return [*asked, *(["--machine_rank", rank] if rank else []), *MEETING]


CASES = {
    "torchrun": torchrun(),
    "endpoint": torchrun(RDZV_ENDPOINT="other:29500"),
    "c10d": torchrun(RDZV_BACKEND="c10d", RDZV_ENDPOINT="other:29500", RDZV_ID="job"),
    "one gpu": trl(1, "sft", *SCRIPT),
    "four gpus": trl(4, "sft", *SCRIPT),
    "preset alone": trl(4, "sft", "--accelerate_config", "fsdp2", *SCRIPT),
    "flags": trl(4, "sft", *SCRIPT, *nodes(4)),
    "flags, one gpu": trl(1, "sft", *SCRIPT, *nodes(1)),
    "multi_gpu flag": trl(1, "sft", *SCRIPT, "--multi_gpu", *nodes(1)),
    "no rank": trl(1, "sft", *SCRIPT, "--multi_gpu", *nodes(1, rank="")),
    "no rank, preset": trl(1, "sft", "--accelerate_config", "fsdp2", *SCRIPT, *nodes(1, rank="")),
    "equals": trl(4, "sft", "--accelerate_config=fsdp2", *SCRIPT),
    "dashes": trl(4, "sft", "--accelerate-config", "fsdp2", *SCRIPT),
    "before the method": trl(4, "--accelerate_config=fsdp2", "sft", *SCRIPT),
    "no such preset": trl(4, "sft", "--accelerate_config", "fsdp3", *SCRIPT),
    "stray": trl(1, "sft", "train.py", *SCRIPT),
    "help": trl(1, "sft", "-h"),
    "unknown": trl(1, "sft", "--no_such_flag", "1", *SCRIPT),
    "abbreviated": trl(1, "sft", "--learning_rat", "1", *SCRIPT),
    "single_gpu": trl(1, "sft", "--accelerate_config", "single_gpu", *SCRIPT, *nodes(1)),
    **{f"{p} on 4": trl(4, "sft", "--accelerate_config", p, *SCRIPT, *nodes(4)) for p in SPANNING},
    **{f"{p} on 1": trl(1, "sft", "--accelerate_config", p, *SCRIPT, *nodes(1)) for p in SPANNING},
}


@pytest.fixture(scope="module")
def started(launch_answers, tmp_path_factory):
    config = tmp_path_factory.mktemp("config") / "config.yaml"
    config.write_text("accelerate_config: fsdp2\nlearning_rate: 1.0e-4\n")
    more = {"config file": trl(4, "sft", "--config", str(config), *SCRIPT)}
    return launch_answers(CASES | more, {"script": {"method": "sft", "argv": ["--config", str(config), *SCRIPT]}})


def meeting(result):
    return {name: result.get(name) for name in ("by", "nodes", "processes", "backend", "endpoint", "rank")}


def spanning(processes, endpoint="head:29501"):
    static = {"by": "torchrun", "backend": "static", "rank": 1}
    return {**static, "nodes": [2, 2], "processes": processes, "endpoint": endpoint}


def test_torchrun_takes_all_it_needs_from_what_trainer_injects(started):
    assert meeting(started["torchrun"]) == spanning(1, "job-node-0-0.job:29500")
    assert started["torchrun"]["command"][1:4] == ["-u", "-m", "trl.scripts.sft"]


def test_an_added_endpoint_stands_above_the_master_address(started):
    assert meeting(started["endpoint"]) == spanning(1, "other:29500")


def test_c10d_takes_endpoint_and_id_and_no_node_rank(started):
    found = started["c10d"]
    assert meeting(found) == spanning(1, "other:29500") | {"backend": "c10d", "rank": None}
    assert found["id"] == "job"


def test_trl_with_one_gpu_per_node_starts_one_lonely_process_on_each(started):
    found = started["one gpu"]
    assert found["by"] == "python"
    assert found["env"].keys().isdisjoint({"WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_ADDR"})


def test_trl_with_more_gpus_spans_the_nodes_by_accident(started):
    assert meeting(started["four gpus"]) == spanning(4, "job-node-0-0.job:29500")


def test_a_preset_alone_starts_its_own_eight_processes_whatever_the_node_has(started):
    assert started["preset alone"]["processes"] == 8


def test_launcher_flags_span_nodes_with_several_gpus(started):
    assert meeting(started["flags"]) == spanning(4)


def test_launcher_flags_do_not_span_nodes_with_one_gpu_each(started):
    assert started["flags, one gpu"]["by"] == "python"


def test_the_multi_gpu_flag_makes_them_span(started):
    assert meeting(started["multi_gpu flag"]) == spanning(1)


@pytest.mark.parametrize("preset", SPANNING)
def test_a_preset_with_launcher_flags_spans_the_nodes(started, preset):
    assert meeting(started[f"{preset} on 4"]) == spanning(4)
    assert meeting(started[f"{preset} on 1"]) == spanning(1)


def test_the_single_gpu_preset_never_spans(started):
    assert started["single_gpu"]["by"] == "python"


@pytest.mark.parametrize("preset", SPANNING)
def test_all_else_that_a_preset_does_is_its_environment(started, preset):
    without = started["flags"]["env"]
    adds = {k: v for k, v in started[f"{preset} on 4"]["env"].items() if without.get(k) != v and k not in APART}
    assert adds == dict(flags.preset_environment(preset))


def test_without_a_machine_rank_the_launcher_breaks_or_takes_every_node_for_the_first(started):
    assert started["no rank"]["error"] == "TypeError"
    assert started["no rank, preset"]["rank"] == 0


def test_a_preset_must_follow_its_flag_after_a_space(started):
    assert [started[name]["message"] for name in ("equals", "dashes")] == ["2", "2"]
    assert "neither a file nor a valid config" in started["no such preset"]["message"]


def test_a_flag_before_the_method_is_dropped_in_silence(started):
    assert "ACCELERATE_USE_FSDP" not in started["before the method"]["env"]


def test_launcher_keys_of_a_config_file_reach_the_launcher_only_through_trl(started):
    assert started["config file"]["env"]["FSDP_VERSION"] == "2"
    assert started["script"]["world"] == 1


def test_a_stray_word_becomes_the_training_script(started):
    assert started["stray"]["command"][1] == "train.py"


def test_help_ends_well_without_training(started):
    assert started["help"] == {"error": "SystemExit", "message": "0"}


def test_an_unknown_flag_ends_the_launcher_and_an_abbreviated_one_is_understood(started):
    assert started["unknown"] == {"error": "SystemExit", "message": "2"}
    assert started["abbreviated"]["by"] == "python"


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith((*SPANNING, "flags", "single", "abb"))])
def test_the_script_gets_what_we_say_it_gets(started, name):
    argv = CASES[name]["argv"][1:]
    launcher_tokens = flags.parse("sft", argv).launcher_tokens
    kept = [token for index, token in enumerate(argv) if index not in launcher_tokens]
    command = started[name]["command"]
    assert command[-len(kept) :] == kept
    assert command[-len(kept) - 1].endswith("trl/scripts/sft.py")
