"""A sampler is completed for the program of our images, which trains asynchronously, as it is for `trl grpo`."""

from __future__ import annotations

import pytest

from muster.strategies.frameworks.trl import flags
from tests.frameworks.builders import gpus
from tests.frameworks.sampled_jobs import URL, applied, errors, grpo, sampled, sampler, serving_in, told

PROGRAM = ["torchrun", "-m", "muster_rollouts.train"]
ARGS = ["--model_name_or_path=Qwen/Qwen2.5-0.5B", "--dataset_name=d", "--reward_funcs=answer_reward", "--use_peft"]
FOLDER = {"name": "MUSTER_WEIGHTS_FOLDER", "value": "/shared/weights"}
MOUNT = {
    "volumeMounts": [{"name": "shared", "mountPath": "/shared"}],
    "pod": {"volumes": [{"name": "shared", "persistentVolumeClaim": {"claimName": "shared"}}]},
}


def governing(**more):
    return sampled(sampler(**MOUNT), **MOUNT, **more)


def job(*more, args=ARGS, env=(FOLDER,), command=PROGRAM, **trainer):
    return grpo(*more, args=args, command=list(command), env=list(env), **trainer)


def words(outcome):
    return serving_in(outcome)["args"]


def value(args, flag):
    return args[args.index(flag) + 1]


def test_the_training_gets_the_url_and_no_mode_which_it_does_not_have():
    first, _ = applied(job(), governing())
    args = first.container["args"]
    assert URL in args
    assert not [word for word in args if "vllm_mode" in word or "use_vllm" in word]


@pytest.mark.parametrize(
    ("more", "loras", "rank"),
    [((), "6", "16"), (("--max_staleness=1", "--lora_r=24"), "3", "32"), (("--lora_r", "8"), "6", "8")],
)
def test_the_sampler_gets_room_for_the_adapters_and_the_way_by_files(more, loras, rank):
    _, second = applied(job(*more), governing())
    args = words(second)
    assert "--enable-lora" in args
    assert (value(args, "--max-loras"), value(args, "--max-lora-rank")) == (loras, rank)
    assert value(args, "--weight-transfer-config") == '{"backend":"muster_files"}'
    assert value(args, "--model") == "Qwen/Qwen2.5-0.5B"
    env = {each["name"]: each["value"] for each in serving_in(second)["env"]}
    assert env["VLLM_SERVER_DEV_MODE"] == "1"
    assert env["MUSTER_WEIGHTS_FOLDER"] == "/shared/weights"
    assert "VLLM_ALLOW_RUNTIME_LORA_UPDATING" not in env, "adapters go by routes that verify them"


def test_a_training_of_whole_models_gets_no_adapters():
    _, second = applied(job(args=ARGS[:-1]), governing())
    assert "--enable-lora" not in words(second)


def test_a_job_that_fits_is_left_without_a_word():
    assert told(job(), governing()) == []


def test_adapters_without_a_folder_are_refused():
    assert "sampler/transfer" in errors(job(env=[]), governing())


def test_a_sampler_with_too_little_room_is_refused():
    serving = sampler(command=["vllm", "serve"], args=["--enable-lora", "--max-loras", "2"], **MOUNT)
    assert errors(job(), sampled(serving, **MOUNT)) == ["sampler/lora"]


def test_another_url_than_that_of_the_sampler_is_refused():
    assert errors(job("--vllm_server_base_url=http://localhost:8000"), governing()) == ["sampler/url"]


def test_an_unknown_flag_is_refused_with_the_one_that_was_meant():
    assert errors(job("--max_stalness=2"), governing()) == ["trl/unknown-flag"]


def test_a_missing_reward_is_refused():
    assert errors(job(args=[ARGS[0], ARGS[1]]), governing()) == ["trl/required"]


def test_python_alone_becomes_torchrun_where_there_are_several_processes():
    alone = job(command=["python", "-m", "muster_rollouts.train"], resourcesPerNode=gpus(2))
    first, _ = applied(alone, governing())
    assert first.container["command"] == ["python", "-m", "torch.distributed.run", "-m", "muster_rollouts.train"]


def test_no_command_of_trl_has_its_name():
    assert "muster_rollouts.train" not in flags.methods()
    assert flags.programs() == {"muster_rollouts.train"}


def test_its_flags_are_read_as_its_parser_reads_them():
    found = flags.parse("muster_rollouts.train", ("--use_peft", "--lora_r", "8", "--lora-target-modules", "q", "v"))
    assert found.values == {"use_peft": True, "lora_r": "8", "lora_target_modules": ["q", "v"]}
    assert not found.unknown
    assert not found.faults
