"""trl behind other programs: rewritten where that is exact, and judged like a bare launch everywhere."""

from __future__ import annotations

import shlex

import pytest

from muster.strategies.documents.findings import Severity
from muster.strategies.launches import launches, readings
from muster.strategies.launches.readings import Reading
from tests.frameworks.builders import NEEDED, enforce, found, gpus, refused, run, runtime, trainjob
from tests.frameworks.trl_jobs import FOUR_GPUS, ONE_GPU, TORCHRUN_SFT, enforced


@pytest.fixture
def behind(monkeypatch):
    """Let the reading of any command line be the launch behind some words, as the reader of launches finds it."""

    def read(argv, words, *through, **more):
        inner = launches.parse(words)
        launch = launches.Launch(
            **{name: getattr(inner, name) for name in inner.__slots__} | {"through": through} | more
        )
        made, original = Reading((launch,), bare=launches.parse(argv)), readings.read
        monkeypatch.setattr(readings, "read", lambda line: made if list(line) == argv else original(line))

    return read


EXECUTING = {
    "env": (["env", "A=1"], "env"),
    "nohup": (["nohup"], "nohup"),
    "tini": (["/usr/bin/tini", "--"], "tini"),
    "numactl": (["numactl", "--interleave=all"], "numactl"),
    "uv": (["uv", "run"], "uv run"),
    "uv with options that change nothing": (["uv", "run", "--frozen", "--no-sync"], "uv run"),
    "two": (["tini", "--", "nohup"], "tini", "nohup"),
}


@pytest.mark.parametrize(("prefix", "through"), [(each[0], each[1:]) for each in EXECUTING.values()], ids=EXECUTING)
def test_behind_a_program_that_only_executes_the_launch_is_rewritten(behind, prefix, through):
    command = [*prefix, "trl", "sft"]
    behind([*command, *NEEDED], ["trl", "sft", *NEEDED], *through)
    out = enforced(command)
    assert out.container["command"] == [*prefix, *TORCHRUN_SFT]
    assert out.container["args"] == list(NEEDED)
    assert out.warnings == []


OTHERS = {
    "env that takes variables away": (["env", "-i"], {}, "env"),
    "variables of a launcher": (["env", "PET_NNODES=1"], {"env": {"PET_NNODES": "1"}}, "env"),
    "another environment of Python": (["uv", "run", "--with", "trl"], {}, "uv run"),
    "a profiler": (["nsys", "profile"], {}, "nsys profile"),
}


@pytest.mark.parametrize(("prefix", "more", "through"), OTHERS.values(), ids=OTHERS)
def test_behind_another_program_nothing_is_rewritten(behind, prefix, more, through):
    command = [*prefix, "trl", "sft"]
    behind([*command, *NEEDED], ["trl", "sft", *NEEDED], through, **more)
    assert len(enforced(command).changes) == 0


def test_flags_of_accelerate_keep_the_words_in_front(behind):
    args = [*NEEDED, "--use_fsdp"]
    behind(["nohup", "trl", "sft", *args], ["trl", "sft", *args], "nohup")
    assert enforced("nohup trl sft", args=args).container["args"][-2:] == ["--main_process_port", "$(PET_MASTER_PORT)"]


def test_arguments_that_fight_are_mended_behind_words_in_front(behind):
    command, args = ["nohup", "trl", "sft", "--seed=1"], [*NEEDED, "--seed=2"]
    behind([*command, *args], [*command[1:], *args], "nohup")
    behind([*command, *NEEDED], [*command[1:], *NEEDED], "nohup")
    out = enforce("trl", trainjob({"command": command}), runtime("trl", args=args, **ONE_GPU))
    assert (out.container["command"], out.container["args"]) == (command, list(NEEDED))


def judged(behind, text, *, nodes=1, certain=True, **container):
    """Errors and warnings about the launch that a shell's text holds."""
    argv = ["bash", "-c", text]
    behind(argv, shlex.split(text), "bash", certain=certain)
    document = trainjob({"command": argv, "numNodes": nodes})
    return found("trl", document, runtime("trl", **(container or ONE_GPU)))


LAUNCHES = ["trl sft", "torchrun -m trl.scripts.sft", "python -m trl.scripts.sft", "torchrun --no-python trl sft"]


@pytest.mark.parametrize("launch", LAUNCHES)
def test_arguments_in_a_shells_text_are_checked(behind, launch):
    findings = judged(behind, f"{launch} --learning_rte 1 --bf16 true --fp16 {' '.join(NEEDED)}")
    assert [(each.severity, each.field, each.rule) for each in findings if each.rule.startswith("trl/")] == [
        (Severity.ERROR, "spec.trainer.command[2]", "trl/unknown-flag"),
        (Severity.ERROR, "spec.trainer.command[2]", "trl/precision"),
    ]


def test_a_launch_that_may_not_run_is_only_warned_of(behind):
    findings = judged(behind, f"trl sft --learning_rte 1 {' '.join(NEEDED)}", certain=False)
    assert {each.severity for each in findings if each.rule == "trl/unknown-flag"} == {Severity.WARNING}


@pytest.mark.parametrize("text", ["trl sft --model_name_or_path $MODEL --max_steps ${STEPS} $@", "trl sft $(ARGS)"])
def test_words_that_the_shell_replaces_are_not_judged(behind, text):
    assert [each for each in judged(behind, text) if each.rule.startswith("trl/")] == []


def test_a_flag_with_two_values_in_a_text_is_refused(behind):
    findings = judged(behind, f"trl sft --seed 1 --seed 2 {' '.join(NEEDED)}")
    assert [(each.field, each.value) for each in findings if each.rule == "trl/flag-twice"] == [
        ("spec.trainer.command", "--seed 2")
    ]
    for text in ("trl sft --seed 1 --seed=1", "trl sft --seed 1 --seed $SEED"):
        assert "trl/flag-twice" not in {each.rule for each in judged(behind, text)}


def test_a_flag_with_two_values_behind_another_program_is_refused(behind):
    argv = ["nsys", "profile", "trl", "sft", "--seed=1", "--seed=2", *NEEDED]
    behind(argv, argv[2:], "nsys profile")
    assert "trl/flag-twice" in {
        rule for *_, rule in refused("trl", trainjob({"command": argv}), runtime("trl", **ONE_GPU))
    }


def test_a_missing_argument_is_told_of_the_text(behind):
    (finding,) = [each for each in judged(behind, "trl sft --dataset_name d") if each.rule == "trl/required"]
    assert finding.field == "spec.trainer.command"


def test_torchrun_around_trl_in_a_shell_hangs(behind):
    text = f"torchrun --no-python trl sft {' '.join(NEEDED)}"
    findings = judged(behind, text, nodes=2)
    assert ("trl/launch", Severity.ERROR) in {(each.rule, each.severity) for each in findings}
    assert "trl/launch" not in {each.rule for each in judged(behind, text)}


# --- accelerate and files of trl ------------------------------------------------------------------------------------

FILES = {
    "a module of accelerate": ("accelerate launch -m trl.scripts.sft", Severity.ERROR),
    "the installed file": ("torchrun /opt/lib/python3.11/site-packages/trl/scripts/sft.py", Severity.ERROR),
    "a file of any version": ("torchrun /workspace/trl/scripts/sft.py", Severity.WARNING),
    "a file under python": ("python trl/scripts/sft.py", Severity.WARNING),
}


@pytest.mark.parametrize(("command", "severity"), FILES.values(), ids=FILES)
def test_the_arguments_of_trls_own_script_are_checked(behind, command, severity):
    argv = [*command.split(), *NEEDED, "--learning_rte=1"]
    if argv[0] == "accelerate":
        launch = {"module": True, "target": "trl.scripts.sft", "rest": tuple(argv[4:])}
        behind(argv, argv, **launch)
    document = trainjob({"command": command.split(), "args": [*NEEDED, "--learning_rte=1"]})
    findings = found("trl", document, runtime("trl", **ONE_GPU))
    assert [(each.severity, each.field) for each in findings if each.rule == "trl/unknown-flag"] == [
        (severity, "spec.trainer.args[2]")
    ]


@pytest.mark.parametrize("command", ["python examples/scripts/sft_vlm.py", "torchrun mytrl/scripts/sft.py x"])
def test_other_files_are_the_users(command):
    document = trainjob({"command": command.split(), "args": ["--my_flag=1"]})
    assert refused("trl", document, runtime("trl", **ONE_GPU)) == []


def test_a_rewritten_launch_behind_another_program_is_not_rewritten_again(behind):
    command = ["tini", "--", *TORCHRUN_SFT]
    behind([*command, *NEEDED], [*TORCHRUN_SFT, *NEEDED], "tini")
    first, _ = run(
        "trl", trainjob({"command": command, "args": list(NEEDED), "numNodes": 2}), runtime("trl", **FOUR_GPUS)
    )
    assert [change.path for change in first.changes] == []
    assert refused("trl", first.document, runtime("trl", resources=gpus(4))) == []
