"""TRL's methods train for real on two nodes, launched as the strategy writes a TrainJob that says `trl METHOD`."""

import json
import subprocess
from pathlib import Path

import pytest

from e2e.suites.support import thorough
from tests.contract.nodes import Nodes
from tests.frameworks.trl_jobs import enforced

HERE = Path(__file__).parent
MODELS = HERE.parents[2] / "e2e" / "models"
STEPS = 6
# GRPO's loss says nothing: its advantages are zero on average. What must rise is the reward, which scatters more.
REWARDED = ("--reward_funcs=rewards.small_letters", "--num_generations=8", "--max_completion_length=16")
METHODS = {
    "sft": (STEPS, "loss", ()),
    "dpo": (STEPS, "loss", ()),
    "kto": (STEPS, "loss", ()),
    "reward": (STEPS, "loss", ()),
    "grpo": (2 * STEPS, "reward", REWARDED),
}


@pytest.fixture(scope="session")
def trained(python, arguments, tmp_path_factory):
    """Train by a method, once in a session: importing torch and TRL is what takes the time."""
    kept, rooms = {}, []

    def train(method):
        if method not in kept:
            steps, _, more = METHODS[method]
            found = enforced(f"trl {method}", args=arguments(method, steps, *more)).container
            rooms.append(Nodes(python, tmp_path_factory.mktemp(method)))
            kept[method] = rooms[-1].run(
                *found["command"], *found["args"],
                count=2, modules=[MODELS], PET_NNODES="2", PET_NPROC_PER_NODE="1",
            )  # fmt: skip
        return kept[method]

    yield train
    for room in rooms:
        room.close()


def logged(folder, metric):
    """What the trainer wrote of a metric, step by step."""
    (state,) = folder.glob("output/checkpoint-*/trainer_state.json")
    return [each[metric] for each in json.loads(state.read_text())["log_history"] if metric in each]


def holding(done, name):
    """The numbers of the nodes that wrote a model into a folder of this name."""
    return [number for number, folder in enumerate(done.folders) if list(folder.glob(f"{name}/*.safetensors"))]


@pytest.mark.parametrize("method", thorough.but("sft", of=METHODS))
def test_two_nodes_make_one_training_of_all_steps_and_end(trained, method):
    done = trained(method)

    assert done.codes == [0, 0], done.output
    assert {report["rank"] for report in done.reports()} == {0, 1}
    steps = METHODS[method][0]
    assert all((each["worldSize"], each["expected"], each["steps"]) == (2, "2", steps) for each in done.reports())


@pytest.mark.parametrize("method", thorough.but("sft", of=METHODS))
def test_the_model_learns(trained, method):
    steps, metric, _ = METHODS[method]
    values = logged(trained(method).folders[0], metric)

    assert len(values) == steps
    third = steps // 3
    first, last = sum(values[:third]), sum(values[-third:])
    assert last > first if metric == "reward" else last < 0.8 * first, values


@pytest.mark.parametrize("method", thorough.but("sft", of=METHODS))
def test_one_node_writes_the_model_and_the_checkpoint(trained, method):
    done = trained(method)

    assert holding(done, "output") == [0]
    assert holding(done, f"output/checkpoint-{METHODS[method][0]}") == [0]


@pytest.mark.thorough
def test_what_was_written_loads_and_is_not_what_it_began_as(trained, python, made):
    outputs = {method: str(trained(method).folders[0] / "output") for method in METHODS}
    done = subprocess.run(
        [python, HERE / "programs" / "load.py", made / "llama", *outputs.values()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    for method, output in outputs.items():
        head = "LlamaForSequenceClassification" if method == "reward" else "LlamaForCausalLM"
        assert found[output]["class"] == head
        assert found[output]["finite"]
        assert found[output]["moved"] > 1
        assert found[output]["words"][-5:] == list(b"hello")
