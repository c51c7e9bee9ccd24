"""trl: the method comes from the command, the first argument, or an annotation; the nearest of them wins."""

from __future__ import annotations

import pytest

from tests.frameworks.builders import NEEDED, enforce, jobset, replicated_job, run, runtime, trainjob
from tests.frameworks.trl_jobs import METHOD, TORCHRUN_SFT, TWO_NODES, enforced

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


def test_the_reason_says_what_named_the_method():
    governed = runtime("trl", command=TORCHRUN_SFT, args=list(NEEDED))
    out = enforce("trl", trainjob(TWO_NODES, annotations={METHOD: "dpo"}), governed)
    assert "the method dpo comes from the TrainJob annotation" in out.reasons


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
