"""`tune run`, completed and refused as Trainer's own Go code does, but for the differences that are named here.

Everywhere: the dataset that the runtime names is kept, which Trainer drops. Each other difference has its list below,
with why; a case in no list has to be exactly Trainer's.
"""

from __future__ import annotations

import pytest

from muster.strategies.documents import findings
from tests.frameworks import golden
from tests.frameworks.builders import enforce, found

CASES = golden.cases("torchtune")
PINNED = {
    # The pods keep the runtime's GPUs, and Trainer counts what is left of them in resourcesPerNode.
    "devices: gpu1 override=cpu nproc=0": "full_finetune_single_device",
    "devices: gpu2 override=memory": "full_finetune_distributed",
    "devices: gpu2 override=empty": "full_finetune_distributed",
    "sample: torchtune-llama3.2-1b/gpu1 override=cpu nproc=0 none numNodes=1": "full_finetune_single_device",
}
BY_LABEL = {
    # The label chooses, not the command: Trainer leaves these as they are.
    "command: no spec.trainer": "full_finetune_distributed",
    "command: empty spec.trainer": "full_finetune_distributed",
    "command: args without a command": "lora_finetune_distributed",
    "command: a path to tune": "full_finetune_distributed",
}
REFUSED_HERE = (
    # Trainer's webhook reads numNodes of the TrainJob only; with the runtime's 2 it lets pass what then trains another
    # model, or a config that torchtune does not have.
    "nodes: torchtune-llama3.2-1b/nodes2 numNodes=0 none",
    "nodes: torchtune-llama3.2-1b/nodes2 numNodes=0 lora",
    "nodes: torchtune-llama3.2-1b/nodes2 numNodes=0 qlora",
    "nodes: torchtune-llama3.3-70b/nodes2 numNodes=0 lora",
    "nodes: torchtune-llama3.3-70b/nodes2 numNodes=0 qlora",
)
BY_TUNE = {
    # Trainer's webhook lets these pass, and torchtune ends with an error before the training starts.
    "args: quantize-bare gpu1": "torchtune/argument",
    "args: quantize-dashes gpu1": "torchtune/argument",
    "args: quantize-twice gpu1": "torchtune/twice",
    "args: quantize-bare gpu2": "torchtune/argument",
    "args: quantize-dashes gpu2": "torchtune/argument",
    "args: quantize-twice gpu2": "torchtune/twice",
    "immutable: dashes": "torchtune/argument",
    "command: a third word": "torchtune/no-config",
}
SAME_COMMAND = {name: case for name, case in CASES.items() if name not in PINNED | BY_LABEL}
SAME_FIELDS = {name: case for name, case in CASES.items() if name not in REFUSED_HERE}
"""After mutation nothing that Trainer accepts may be refused, whatever the count was."""


def mutated(case):
    return enforce("torchtune", case["trainjob"], golden.runtime("torchtune", case))


def _without_refused_endpoint(command):
    """Trainer's command without the endpoint that it gives a recipe for one device, for which tune run refuses it."""
    if not command or not any(word.endswith("_single_device") for word in command):
        return command
    return [word for word in command if not word.startswith("--rdzv_endpoint")]


def runtime_dataset(case):
    job = golden.runtime("torchtune", case)["spec"]["template"]["spec"]["replicatedJobs"][-1]
    command = job["template"]["spec"]["template"]["spec"]["containers"][0].get("command") or ()
    return [word for word in command if word.startswith("dataset")]


@pytest.mark.parametrize("case", SAME_COMMAND.values(), ids=SAME_COMMAND)
def test_the_command_is_trainers_with_the_runtimes_dataset(case):
    got, want = mutated(case).container.get("command"), _without_refused_endpoint(case["wantCommand"])
    if case["trainjob"]["spec"].get("trainer", {}).get("command") != ["tune", "run"]:
        assert got == want
        return
    config = want.index("--config") + 2
    args = [arg.partition("=")[0] for arg in case["trainjob"]["spec"]["trainer"].get("args") or ()]
    dataset = [word for word in runtime_dataset(case) if word.partition("=")[0] not in args and "dataset" not in args]
    assert got == [*want[:config], *dataset, *want[config:]]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_args_are_verbatim(case):
    assert mutated(case).container.get("args") == case["trainjob"]["spec"].get("trainer", {}).get("args")


@pytest.mark.parametrize("case", SAME_FIELDS.values(), ids=SAME_FIELDS)
def test_what_trainer_refuses_is_refused_by_the_same_fields_and_nothing_else_is(case):
    governing = golden.runtime("torchtune", case)
    errors = findings.errors(found("torchtune", mutated(case).document, governing))
    by_tune = BY_TUNE.get(case["name"])
    assert (by_tune is None) or by_tune in {each.rule for each in errors}
    errors = [
        each for each in errors if each.rule not in (by_tune, "core/too-many-processes")
    ]  # Trainer counts no devices
    fields = {"spec.trainer.env" if each.field.startswith("spec.trainer.env[") else each.field for each in errors}
    assert fields == {error["field"] for error in case["wantErrors"]}


@pytest.mark.parametrize("name", REFUSED_HERE)
def test_nodes_of_the_runtime_are_judged_like_those_of_the_job(name):
    case = CASES[name]
    errors = findings.errors(found("torchtune", mutated(case).document, golden.runtime("torchtune", case)))
    assert {error.field for error in errors} == {"spec.trainer.numNodes"}


@pytest.mark.parametrize(("name", "recipe"), PINNED.items())
def test_the_recipe_follows_the_gpus_that_the_pods_keep(name, recipe):
    got = mutated(CASES[name])
    assert recipe in got.container["command"]
    assert got.container["numProcPerNode"] == (1 if recipe.endswith("single_device") else 2)
    assert any(word.startswith("--rdzv_endpoint=") for word in got.argv) == recipe.endswith("distributed")


@pytest.mark.parametrize(("name", "recipe"), BY_LABEL.items())
def test_the_label_is_enough_for_a_recipe(name, recipe):
    case = CASES[name]
    command = mutated(case).container["command"]
    head = (case["trainjob"]["spec"].get("trainer", {}).get("command") or ["tune", "run"])[0]
    assert command[:4] == [head, "run", "--rdzv_endpoint=tune-node-0-0.tune:29500", recipe]
    assert [word for word in command if word.startswith("dataset")] == runtime_dataset(case)


def test_most_cases_have_a_dataset_to_keep():
    assert sum(bool(runtime_dataset(case)) for case in SAME_COMMAND.values()) > len(CASES) / 2
