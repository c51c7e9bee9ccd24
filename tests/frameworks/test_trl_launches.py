"""trl: every way in which people ask for a training ends in a launch that spans its nodes, or stays as it is."""

from __future__ import annotations

import pytest

from strategies.trl import flags
from tests.frameworks.builders import (
    GPU,
    NEEDED,
    enforce,
    found,
    gpus,
    jobset,
    replicated_job,
    run,
    runtime,
    trainjob,
)

METHOD = "muster.dev/trl-method"
TORCHRUN_SFT = ["torchrun", "-m", "trl.scripts.sft"]
TWO_NODES = {"numNodes": 2}


def enforced(command, trainer=None, *, args=NEEDED, annotations=None, name="job", **governing):
    """A TrainJob of two nodes with a GPU each, unless said otherwise."""
    own = {} if command is None else {"command": command.split() if isinstance(command, str) else command}
    document = trainjob(
        own | ({} if args is None else {"args": list(args)}) | (TWO_NODES if trainer is None else trainer),
        annotations=annotations,
        name=name,
    )
    return enforce("trl", document, runtime("trl", **({"resources": gpus(1)} | governing)))


FORMS = {
    "trl": ("trl sft", TORCHRUN_SFT),
    "trl of a folder": ("/opt/venv/bin/trl sft", ["/opt/venv/bin/torchrun", "-m", "trl.scripts.sft"]),
    "trl as a module": ("python -m trl sft", ["python", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"]),
    "trl as a module of one interpreter": (
        "/opt/py/python3.11 -u -m trl sft",
        ["/opt/py/python3.11", "-u", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"],
    ),
    "torchrun": ("torchrun -m trl.scripts.sft", TORCHRUN_SFT),
    "torchrun with options": (
        "torchrun --nnodes 2 -m trl.scripts.sft",
        ["torchrun", "--nnodes", "2", "-m", "trl.scripts.sft"],
    ),
    "torchrun around trl": ("torchrun --no-python trl sft", TORCHRUN_SFT),
    "torchrun around a path of trl": ("torchrun --no_python /opt/bin/trl sft", TORCHRUN_SFT),
    "torchrun around trl as a module": (
        "torchrun --max-restarts=1 -m trl sft",
        ["torchrun", "--max-restarts=1", *TORCHRUN_SFT[1:]],
    ),
    "torchrun as a module around trl": (
        "python -m torch.distributed.run --no-python trl sft",
        ["python", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"],
    ),
    "python on one process per node": ("python -m trl.scripts.sft", ["python", "-m", "trl.scripts.sft"]),
}


@pytest.mark.parametrize(("command", "wanted"), FORMS.values(), ids=FORMS)
def test_on_two_nodes_becomes(command, wanted):
    out = enforced(command)
    assert out.container["command"] == wanted
    assert out.container["args"] == list(NEEDED)
    assert out.warnings == []


@pytest.mark.parametrize("method", sorted(flags.methods()))
def test_every_method_is_understood(method):
    out = enforced(f"trl {method}")
    assert out.container["command"] == ["torchrun", "-m", f"trl.scripts.{method}"]
    assert out.changes.patch() == [
        {"op": "replace", "path": "/spec/trainer/command", "value": ["torchrun", "-m", f"trl.scripts.{method}"]}
    ]


def test_words_stay_where_they_were_written():
    out = enforced(["trl", "sft", "--model_name_or_path=m"], args=["--dataset_name=d"])
    assert out.container["command"] == [*TORCHRUN_SFT, "--model_name_or_path=m"]
    assert out.container["args"] == ["--dataset_name=d"]
    out = enforced(["trl"], args=["sft", *NEEDED])
    assert (out.container["command"], out.container["args"]) == (TORCHRUN_SFT, list(NEEDED))
    out = enforced(["trl", "sft", *NEEDED], args=None)
    assert (out.container["command"], "args" in out.container) == ([*TORCHRUN_SFT, *NEEDED], False)


def test_a_launch_in_the_args_alone_stays_behind_the_images_entrypoint():
    out = enforced(None, args=["trl", "sft", *NEEDED])
    assert "command" not in out.container
    assert out.container["args"] == [*TORCHRUN_SFT, *NEEDED]


REASONS = {
    "trl": ("trl sft", "each node would train alone"),
    "torchrun around trl": ("torchrun --no-python trl sft", "the job hangs"),
    "no command": (None, "no command was written; the method sft was named by TrainJob annotation"),
}


@pytest.mark.parametrize(("command", "words"), REASONS.values(), ids=REASONS)
def test_the_reason_names_the_cause(command, words):
    assert words in enforced(command, annotations={METHOD: "sft"}).reasons


def test_python_for_several_processes_per_node_becomes_torchrun_of_the_same_interpreter():
    out = enforced("python3 -u -m trl.scripts.sft", resources=gpus(4))
    assert out.container["command"] == ["python3", "-u", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"]


# --- where the method comes from ------------------------------------------------------------------------------------

SPOKEN = {
    "the first argument": (None, ["dpo", *NEEDED], {}, {}, "dpo"),
    "the job's annotation": (None, NEEDED, {METHOD: "kto"}, {}, "kto"),
    "the runtime's annotation": (None, NEEDED, {}, {METHOD: "kto"}, "kto"),
    "the job's annotation before the runtime's": (None, NEEDED, {METHOD: "dpo"}, {METHOD: "kto"}, "dpo"),
    "the first argument before any annotation": (None, ["rloo", *NEEDED], {METHOD: "dpo"}, {}, "rloo"),
    "an annotation beside trl alone": ("trl", NEEDED, {METHOD: "grpo"}, {}, "grpo"),
    "trl before an annotation": ("trl sft", NEEDED, {METHOD: "grpo"}, {}, "sft"),
}


@pytest.mark.parametrize(("command", "args", "own", "of_runtime", "method"), SPOKEN.values(), ids=SPOKEN)
def test_the_method_is_named_by(command, args, own, of_runtime, method):
    document = trainjob(
        TWO_NODES | {"args": list(args)} | ({"command": command.split()} if command else {}), annotations=own
    )
    out = enforce("trl", document, runtime("trl", annotations=of_runtime))
    assert out.container["command"] == ["torchrun", "-m", f"trl.scripts.{method}"]
    assert out.container["args"] == list(NEEDED)


def test_without_a_method_an_absent_command_is_the_images():
    out = enforced(None)
    assert len(out.changes) == 0
    assert "the image decides" in out.warnings[0]


RUNTIMES = {
    "its method": ({"command": TORCHRUN_SFT}, {}, {}, None, list(NEEDED)),
    "its trl": ({"command": ["trl", "sft"]}, {}, {}, TORCHRUN_SFT, list(NEEDED)),
    "another method by annotation": (
        {"command": TORCHRUN_SFT},
        {},
        {METHOD: "dpo"},
        ["torchrun", "-m", "trl.scripts.dpo"],
        list(NEEDED),
    ),
    "another method by the first argument": (
        {"command": TORCHRUN_SFT},
        {"args": ["dpo", "--x=1"]},
        {},
        ["torchrun", "-m", "trl.scripts.dpo"],
        ["--x=1"],
    ),
    "its trl alone": (
        {"command": ["trl"]},
        {"args": ["dpo", "--x=1"]},
        {},
        ["torchrun", "-m", "trl.scripts.dpo"],
        ["--x=1"],
    ),
    "its torchrun with options and another method": (
        {"command": ["torchrun", "--max-restarts=1", "-m", "trl.scripts.sft"]},
        {},
        {METHOD: "dpo"},
        ["torchrun", "--max-restarts=1", "-m", "trl.scripts.dpo"],
        list(NEEDED),
    ),
    "an own command over its arguments": (
        {"command": TORCHRUN_SFT},
        {"command": ["trl", "dpo"]},
        {},
        ["torchrun", "-m", "trl.scripts.dpo"],
        list(NEEDED),
    ),
    "own arguments over its trl": ({"command": ["trl", "sft"]}, {"args": ["--x=1"]}, {}, TORCHRUN_SFT, ["--x=1"]),
}


@pytest.mark.parametrize(("governing", "trainer", "annotations", "command", "args"), RUNTIMES.values(), ids=RUNTIMES)
def test_of_a_runtime_with_command_and_args_a_job_runs(governing, trainer, annotations, command, args):
    governed = runtime("trl", args=list(NEEDED), **governing)
    first, second = run("trl", trainjob(trainer | TWO_NODES, annotations=annotations), governed)
    assert first.container.get("command") == (command or trainer.get("command"))
    assert second.container["args"] == args
    assert second.container["command"] == (command or governing["command"])
    assert {change.rule.partition("/")[0] for change in second.changes} == {"trl"}


def test_an_annotation_of_the_runtime_does_not_rename_the_runtimes_own_command():
    governed = runtime("trl", command=TORCHRUN_SFT, args=list(NEEDED), annotations={METHOD: "dpo"})
    assert len(enforce("trl", trainjob(TWO_NODES), governed).changes) == 0


def test_a_job_with_a_generated_name_is_rewritten_all_the_same():
    assert enforced("trl sft", name=None).container["command"] == TORCHRUN_SFT


def test_a_jobset_without_trainer_is_rewritten_where_it_stands():
    container = {"name": "node", "command": ["trl", "sft"], "args": list(NEEDED)}
    out = enforce("trl", jobset(replicated_job("node", container, parallelism=2), framework="trl"))
    assert out.argv == [*TORCHRUN_SFT, *NEEDED]
    assert out.env["PET_NNODES"] == out.env["MUSTER_EXPECTED_WORLD_SIZE"] == "2"
    assert len(enforce("trl", out.document).changes) == 0


def test_a_second_pass_changes_nothing():
    for command in (*FORMS, "trl sft"):
        out = enforced(FORMS.get(command, (command,))[0])
        governing = runtime("trl", resources=gpus(1))
        assert len(enforce("trl", out.document, governing).changes) == 0


# --- one node -------------------------------------------------------------------------------------------------------

ONE_GPU, FOUR_GPUS = {"resources": gpus(1)}, {"resources": gpus(4)}
CLAIM = {
    "resources": {"claims": [{"name": "gpu"}], "requests": {"cpu": 8}},
    "pod": {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]},
}
ALONE = {
    "one GPU": ("trl sft", ONE_GPU, {}),
    "one GPU and flags of accelerate": ("trl sft --mixed_precision bf16", ONE_GPU, {}),
    "one process on purpose": ("trl sft --num_processes 1", FOUR_GPUS, {}),
    "fewer processes on purpose": ("trl sft --num_processes=2", FOUR_GPUS, {}),
    "processes of an env": ("trl sft --num_processes $(N)", FOUR_GPUS, {}),
    "flags of accelerate": ("trl sft --use_fsdp --fsdp_version 2", FOUR_GPUS, {}),
    "a configuration of accelerate's of one's own": ("trl sft --accelerate_config my.yaml", FOUR_GPUS, {}),
    "the preset for one GPU": ("trl sft --accelerate_config single_gpu", FOUR_GPUS, {}),
    "a file that may hold settings of accelerate": ("trl sft --config sft.yaml", FOUR_GPUS, {}),
    "a claim of unknown size": ("trl sft", CLAIM, {}),
    "another maker's accelerator": ("trl sft", {"resources": {"limits": {"habana.ai/gaudi": 8}}}, {}),
    "python and one GPU": ("python -m trl.scripts.sft", ONE_GPU, {}),
}


@pytest.mark.parametrize(("command", "governing", "trainer"), ALONE.values(), ids=ALONE)
def test_on_one_node_a_launch_that_works_stays_as_it_is(command, governing, trainer):
    out = enforced(command, trainer, **governing)
    assert [change.path for change in out.changes] == []
    assert out.argv == [*command.split(), *NEEDED]


SEVERAL = {
    "all of four GPUs": ("trl sft", {}, FOUR_GPUS, TORCHRUN_SFT),
    "two of four GPUs, by the job's number": ("trl sft", {"numProcPerNode": 2}, FOUR_GPUS, TORCHRUN_SFT),
    "one of four GPUs, by the job's number": ("trl sft", {"numProcPerNode": 1}, FOUR_GPUS, TORCHRUN_SFT),
    "GPUs behind an override": (
        "trl sft",
        {"resourcesPerNode": {"limits": {"memory": "1Gi"}}},
        FOUR_GPUS,
        TORCHRUN_SFT,
    ),
    "what torchrun would hang on, on one GPU too": ("torchrun --no-python trl sft", {}, ONE_GPU, TORCHRUN_SFT),
    "what torchrun would hang on": ("torchrun --no-python trl sft", {}, FOUR_GPUS, TORCHRUN_SFT),
    "what python would leave idle": (
        "python -m trl.scripts.sft",
        {},
        FOUR_GPUS,
        ["python", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"],
    ),
}


@pytest.mark.parametrize(("command", "trainer", "governing", "wanted"), SEVERAL.values(), ids=SEVERAL)
def test_on_one_node_torchrun_starts(command, trainer, governing, wanted):
    assert enforced(command, trainer, **governing).container["command"] == wanted


# --- CPU ------------------------------------------------------------------------------------------------------------

CPU8 = {"resources": {"limits": {"cpu": 8}}}


@pytest.mark.parametrize("command", ["trl sft", "python -m trl.scripts.sft"])
def test_on_cpu_a_node_keeps_the_one_process_that_its_launch_starts(command):
    out = enforced(command, {}, **CPU8)
    assert out.container["command"] == command.split()
    assert out.container["numProcPerNode"] == 1
    assert "one process per node on CPU" in out.reasons
    first, second = run("trl", out.document, runtime("trl", **CPU8))
    assert (len(first.changes), second.env["MUSTER_EXPECTED_WORLD_SIZE"]) == (0, "1")


def test_on_two_cpu_nodes_there_are_two_processes_and_not_sixteen():
    out = enforced("trl sft", **CPU8)
    assert (out.container["command"], out.container["numProcPerNode"]) == (TORCHRUN_SFT, 1)


def test_a_number_of_cpu_processes_that_was_asked_for_is_started():
    out = enforced("trl sft", {"numProcPerNode": 4}, **CPU8)
    assert (out.container["command"], out.container["numProcPerNode"]) == (TORCHRUN_SFT, 4)


def test_torchrun_on_cpu_starts_what_trainer_counts():
    assert "numProcPerNode" not in enforced("torchrun -m trl.scripts.sft", **CPU8).container


# --- numbers on the command line ------------------------------------------------------------------------------------

NUMBERS = {
    "the number of all nodes together": ("--num_machines 2 --num_processes 8", []),
    "the number of all nodes, without machines": ("--num_processes=8", []),
    "fewer than there are GPUs": ("--num_machines 2 --num_processes 4", ["--nproc_per_node=2"]),
    "a number that was written for one node": ("--num_processes 2", ["--nproc_per_node=2"]),
    "one process on each": ("--num_processes 1", ["--nproc_per_node=1"]),
    "a number of an env": ("--num_processes $(N)", ["--nproc_per_node=$(N)"]),
    "the preset for one GPU": ("--accelerate_config single_gpu", ["--nproc_per_node=1"]),
    "all of accelerate's words for where": (
        "--multi_gpu --machine_rank $(R) --main_process_ip h --main_process_port 1 --same_network",
        [],
    ),
    "another backend": ("--rdzv_backend c10d", ["--rdzv_backend=c10d"]),
    "what torchrun has words for": ("--max_restarts 3 --tee 3", ["--max_restarts=3", "--tee=3"]),
}


@pytest.mark.parametrize(("written", "options"), NUMBERS.values(), ids=NUMBERS)
def test_flags_of_accelerate_that_torchrun_has_words_for_are_translated(written, options):
    out = enforced("trl sft", args=[*NEEDED, *written.split()], **FOUR_GPUS)
    assert out.container["command"] == ["torchrun", *options, "-m", "trl.scripts.sft"]
    assert out.container["args"] == list(NEEDED)


def test_the_number_of_a_torchrun_around_trl_is_torchruns():
    out = enforced("torchrun --nproc_per_node=2 --no-python trl sft", args=[*NEEDED, "--num_processes=8"], **FOUR_GPUS)
    assert out.container["command"] == ["torchrun", "--nproc_per_node=2", "-m", "trl.scripts.sft"]


def test_a_claim_of_unknown_size_is_counted_by_torchrun():
    out = enforced("trl sft", **CLAIM)
    assert out.container["command"] == ["torchrun", "--nproc_per_node=gpu", "-m", "trl.scripts.sft"]
    assert out.rules == ["trl/processes"]


CONTRADICTIONS = {
    "more machines than nodes": ("--num_machines 4", {}, "--num_machines says 4 and the job has 2 nodes"),
    "machines on one node": ("--num_machines 2", {"numNodes": 1}, "--num_machines says 2 and the job has 1 nodes"),
    "processes that cannot be divided": ("--num_machines 2 --num_processes 3", {}, "cannot be divided among 2 nodes"),
    "processes of an env for several machines": ("--num_machines 2 --num_processes $(N)", {}, "cannot be divided"),
}


@pytest.mark.parametrize(("written", "trainer", "words"), CONTRADICTIONS.values(), ids=CONTRADICTIONS)
def test_numbers_that_contradict_are_refused_and_not_rewritten(written, trainer, words):
    document = trainjob({"command": ["trl", "sft"], "args": [*NEEDED, *written.split()]} | TWO_NODES | trainer)
    governing = runtime("trl", **FOUR_GPUS)
    assert len(enforce("trl", document, governing).changes) == 0
    (finding,) = found("trl", document, governing)
    assert (finding.rule, finding.field) == ("trl/launch", "spec.trainer.args")
    assert words in finding.message


def test_a_file_of_settings_on_two_nodes_is_warned_of():
    out = enforced("trl sft", args=["--config", "sft.yaml"])
    assert out.container["command"] == TORCHRUN_SFT
    assert out.container["args"] == ["--config", "sft.yaml"]
    assert out.rules == ["trl/launch"]
    assert "accelerate inside sft.yaml" in out.warnings[0]


# --- what is not a training -----------------------------------------------------------------------------------------

PASSED = ["trl env", "trl vllm-serve --model m", "python -m trl env"]
OWN = {
    "a shell": ["bash", "-c", "trl sft --model_name_or_path m"],
    "a script": ["python", "train.py"],
    "accelerate": ["accelerate", "launch", "-m", "trl.scripts.sft"],
    "an unknown command": ["trl", "ppo"],
    "the version": ["trl", "--version"],
}


@pytest.mark.parametrize("command", PASSED)
def test_commands_that_do_not_train_pass_without_a_word(command):
    out = enforced(command, args=None, **FOUR_GPUS)
    assert (len(out.changes), out.warnings) == (0, [])


@pytest.mark.parametrize("command", OWN.values(), ids=OWN)
def test_a_users_program_is_never_rewritten_and_warned_of_once(command):
    out = enforced(command, args=None, annotations={METHOD: "sft"}, **FOUR_GPUS)
    assert (len(out.changes), out.rules) == (0, ["trl/not-enforced"])


@pytest.mark.parametrize("command", ["torchrun train.py sft", "torchrun --no-python trl", "torchrun -m pkg.sft"])
def test_what_only_looks_like_trl_under_torchrun_is_the_users(command):
    assert len(enforced(command, args=None, **FOUR_GPUS).changes) == 0


def test_a_program_on_a_jobset_of_trainers_was_warned_of_with_its_trainjob():
    governing, document = runtime("trl", **FOUR_GPUS), trainjob({"command": ["bash", "x.sh"], "numNodes": 2})
    first, second = run("trl", document, governing)
    assert (first.rules, second.rules) == (["trl/not-enforced"], [])


def test_a_runtime_with_a_method_and_no_arguments_is_right_as_it_is():
    governing = runtime("trl", command=TORCHRUN_SFT)
    assert len(enforce("trl", trainjob(TWO_NODES), governing).changes) == 0


def test_flags_of_accelerate_are_taken_from_a_module_of_trl():
    out = enforced("python -m trl.scripts.sft", args=[*NEEDED, "--num_processes", "1"])
    assert out.argv == [*(["python", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"]), *NEEDED]


def test_flags_of_accelerate_under_torchrun_are_left_for_validation():
    out = enforced("torchrun -m trl.scripts.sft", args=[*NEEDED, "--max_restarts=3", "--accelerate_config", "fsdp2"])
    assert len(out.changes) == 0
    governing = runtime("trl", command=TORCHRUN_SFT)
    document = trainjob({"args": ["dpo", "--max_restarts=3", "--accelerate_config", "fsdp2"]})
    out = enforce("trl", document, governing)
    assert out.argv == ["torchrun", "-m", "trl.scripts.dpo", "--max_restarts=3", "--accelerate_config", "fsdp2"]
    assert out.env == {}


def test_a_script_under_torchrun_is_the_users_and_needs_no_word():
    out = enforced("torchrun train.py", args=None, **FOUR_GPUS)
    assert (len(out.changes), out.warnings) == (0, [])


def test_gpus_by_another_name_are_gpus():
    out = enforced("trl sft", {"resourcesPerNode": {"limits": {"amd.com/gpu": 2, GPU: 0}}}, resources={})
    assert out.container["command"] == TORCHRUN_SFT
