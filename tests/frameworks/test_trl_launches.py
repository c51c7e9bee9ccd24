"""trl: every way in which people ask for a training ends in a launch that spans its nodes, or stays as it is."""

from __future__ import annotations

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.frameworks.trl import flags
from muster.strategies.launches import launches
from tests.frameworks.builders import GPU, NEEDED, enforce, found, gpus, run, runtime, trainjob
from tests.frameworks.trl_jobs import FOUR_GPUS, METHOD, TORCHRUN_SFT, TWO_NODES, enforced

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


STRICT_FORMS = {
    "trl": ("trl sft", ["torchrun"]),
    "trl of a folder": ("/opt/venv/bin/trl sft", ["/opt/venv/bin/torchrun"]),
    "trl as a module": ("python -m trl sft", ["python", "-m", "torch.distributed.run"]),
    "torchrun around trl": ("torchrun --max-restarts=1 --no-python trl sft", ["torchrun", "--max-restarts=1"]),
}


@pytest.mark.parametrize(("command", "head"), STRICT_FORMS.values(), ids=STRICT_FORMS)
def test_a_file_of_settings_is_read_as_strictly_as_by_trl(command, head):
    out = enforced(command, args=["--config", "/cfg/sft.yaml"])
    launch = launches.parse(out.container["command"] + out.container["args"])

    assert out.container["command"] == [*head, "--", "-c", launches.STRICT.format("trl.scripts.sft")]
    assert (launch.module, launch.target, launch.rest) == (True, "trl.scripts.sft", ("--config", "/cfg/sft.yaml"))
    assert "cannot read /cfg/sft.yaml" in out.warnings[0]


@pytest.mark.parametrize("command", ["torchrun -m trl.scripts.sft", "python -m trl.scripts.sft"])
def test_a_script_that_the_author_runs_as_a_module_stays_one(command):
    assert "-m trl.scripts.sft" in " ".join(enforced(command, args=["--config", "/cfg/sft.yaml"]).container["command"])


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
    "trl": ("trl sft", "ignores the nodes and processes in Trainer's PET_* env"),
    "torchrun around trl": ("torchrun --no-python trl sft", "the job hangs"),
    "no command": (None, "the job has no command, and the method sft comes from the TrainJob annotation"),
}


ONE_NODE = {
    "trl": ("trl sft", "which ignores the number of processes in Trainer's PET_* env; torchrun starts 4 processes"),
    "torchrun around trl": ("torchrun --no-python trl sft", "the job hangs; torchrun starts 4 processes"),
    "python": ("python -m trl.scripts.sft", "python alone starts one process; torchrun starts 4 processes"),
    "a preset": ("trl sft --accelerate_config zero3", "without its number of processes; torchrun starts 4 processes"),
    "a preset and a number": ("trl sft --accelerate_config zero3 --num_processes 2", "torchrun starts 2 processes"),
    "a preset with other flags": ("trl sft --accelerate_config zero3 --dynamo_backend no", "would start 8 processes"),
    "no command": (None, "the method sft comes from the TrainJob annotation; torchrun starts 4 processes"),
}


@pytest.mark.parametrize(("command", "words"), ONE_NODE.values(), ids=ONE_NODE)
def test_on_one_node_the_reason_is_not_about_nodes(command, words):
    out = enforced(command, {}, annotations={METHOD: "sft"}, **FOUR_GPUS)
    assert words in out.reasons
    assert "node" not in out.reasons


def test_with_several_processes_on_each_node_accelerate_is_not_said_to_ignore_the_nodes():
    reasons = enforced("trl sft", **FOUR_GPUS).reasons
    assert "ignores the number of processes in Trainer's PET_* env; torchrun reads PET_* and spans all nodes" in reasons


@pytest.mark.parametrize(("command", "words"), REASONS.values(), ids=REASONS)
def test_the_reason_names_the_cause(command, words):
    assert words in enforced(command, annotations={METHOD: "sft"}).reasons


def test_python_for_several_processes_per_node_becomes_torchrun_of_the_same_interpreter():
    out = enforced("python3 -u -m trl.scripts.sft", resources=gpus(4))
    assert out.container["command"] == ["python3", "-u", "-m", "torch.distributed.run", "-m", "trl.scripts.sft"]


# --- what is not a training -----------------------------------------------------------------------------------------

PASSED = ["trl env", "trl vllm-serve --model m", "python -m trl env"]
OWN = {
    "a shell": ["bash", "start.sh"],
    "a script": ["python", "train.py"],
}
COUNTED = {
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


@pytest.mark.parametrize("command", COUNTED.values(), ids=COUNTED)
def test_a_launch_that_is_counted_is_left_alone_without_a_word(command):
    out = enforced(command, args=None, annotations={METHOD: "sft"}, **FOUR_GPUS)
    assert (len(out.changes), out.rules) == (0, [])


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


def test_a_second_pass_changes_nothing():
    for command in (*FORMS, "trl sft"):
        out = enforced(FORMS.get(command, (command,))[0])
        governing = runtime("trl", resources=gpus(1))
        assert len(enforce("trl", out.document, governing).changes) == 0


@pytest.mark.parametrize("command", [*PASSED, "trl --version"])
def test_commands_that_do_not_train_are_not_counted(command):
    document = trainjob({"command": command.split(), "numNodes": 2})
    assert [each.rule for each in found("trl", document, runtime("trl", resources=gpus(1)))] == []


def test_a_trainjob_that_names_its_runtimes_image_is_judged_as_one_that_names_none():
    governing = runtime("trl", image="ours/trl:1")
    own = {"command": ["trl", "sft"], "args": [*NEEDED, "--frobnicate=1"]}
    flagged = [found("trl", trainjob(own | more), governing) for more in ({}, {"image": "ours/trl:1"}, {"image": "x"})]
    kinds = [[each.severity for each in findings if each.rule == "trl/unknown-flag"] for findings in flagged]
    assert kinds == [[Severity.ERROR], [Severity.ERROR], [Severity.WARNING]]
