"""Two nodes train one model with TRL, from what people type; without Muster the guard ends what would be useless."""

from __future__ import annotations

import json
from typing import Any

from e2e.suites.support import guards, statuses, waits
from e2e.suites.support.documents import trainjob
from e2e.suites.support.kubectls import Kubectl
from e2e.suites.support.spaces import Space
from e2e.suites.support.spares import Spare
from e2e.suites.training import runs

IMAGES = ("trl",)
_CHECK = """
import json, pathlib, sys, transformers
folder = pathlib.Path({folder!r})
written = sorted(path.parent.relative_to(folder).as_posix() for path in folder.rglob("model.safetensors"))
model = transformers.AutoModelForCausalLM.from_pretrained(folder / "0")
print(json.dumps({{"written": written, "weights": sum(each.numel() for each in model.parameters())}}))
"""


def sft(space: Space, **trainer: Any) -> dict[str, Any]:
    """A TrainJob as people write it, whose ranks write to folders of their own."""
    out = f"{runs.SHARED}/out/{space.name}"
    args = ["--model_name_or_path", f"{runs.SHARED}/llama", "--dataset_name", f"{runs.SHARED}/data/sft"]
    args += ["--output_dir", f"{out}/$(INDEX)", "--use_cpu", "--bf16", "false", "--report_to", "none"]
    args += ["--max_steps", "8", "--logging_steps", "1", "--per_device_train_batch_size", "2"]
    args += ["--learning_rate", "1e-2", "--max_length", "128", "--save_strategy", "no"]
    return trainjob("sft", "trl", trainer={"numNodes": 2, "command": ["trl", "sft"], "args": args, **trainer})


def test_two_nodes_train_one_model(space: Space, kubectl: Kubectl, keeper: Spare, models: None) -> None:
    name = runs.start(space, runs.runtime("trl", "trl"), sft(space))

    ranks = runs.ended(space, name)

    assert [rank.report()["worldSize"] for rank in ranks] == [2, 2]
    assert {rank.report()["rank"] for rank in ranks} == {0, 1}
    assert [rank.report()["steps"] for rank in ranks] == [8, 8]
    losses = ranks[0].losses()
    assert len(losses) == 8
    assert losses[-1] < 0.8 * losses[0], losses
    folder = f"{runs.SHARED}/out/{space.name}"
    found = json.loads(runs.python(space, "trl", "check", _CHECK.format(folder=folder)).splitlines()[-1])
    assert found["written"] == ["0"], "more or other ranks than rank 0 wrote the model"
    assert found["weights"] > 0
    told_without_pods(space, kubectl, name)


def told_without_pods(space: Space, kubectl: Kubectl, name: str) -> None:
    """What the guard of a real training reported is told when its pods are gone."""

    def kept() -> bool:
        metadata = (space.jobset(name) or {"metadata": {}})["metadata"]
        return guards.KEPT in (metadata.get("annotations") or {})

    waits.until("the report to be kept", kept, 60)
    kubectl.run("delete", "pods", "--namespace", space.name, "--all", "--grace-period=0", "--force").expect()
    story = statuses.told(kubectl, name, "-n", space.name, "--check")
    assert (story["phase"], story["why"]["text"]) == ("Finished", "finished with 2 ranks, as was asked for")
    world = story["world"]
    assert (world["asked"], world["reached"], world["source"], world["steps"]) == ("2", 2, "kept", 8)


def test_with_muster_off_both_nodes_end_at_once_instead_of_training_alone(space: Space, models: None) -> None:
    space.mode("off")
    name = runs.start(space, runs.runtime("trl", "trl"), sft(space))

    ranks = runs.ended(space, name, "Failed")

    # The first to end so fails the job, and the other may be removed before it comes to its first step.
    assert ranks
    for rank in ranks:
        assert rank.code == runs.GUARDED, rank
        assert "this training has 1 rank, but 2 or more were asked for (PET_NNODES=2 " in rank.message
