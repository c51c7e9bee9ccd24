"""torchtune: a recipe that fits, a rendezvous where processes have to meet, and a start after model and dataset."""

from __future__ import annotations

from e2e.suites.pods import trainings
from e2e.suites.support.documents import trainjob
from e2e.suites.support.spaces import Space

_DATASET = ["dataset=torchtune.datasets.instruct_dataset", "dataset.source=parquet", "dataset.data_dir=/workspace/data"]
_MODEL = ["tokenizer.path=/workspace/model/tokenizer.model", "checkpointer.checkpoint_dir=/workspace/model"]
_COMMAND = [
    *("tune", "run", "--rdzv_endpoint=localhost:29500", "full_finetune_distributed"),
    *("--config", "llama3_2/1B_full", *_DATASET, "output_dir=/workspace/output", *_MODEL),
]
_INITIALIZERS = ("dataset-initializer", "model-initializer")


def test_one_process_runs_a_recipe_for_one_device_and_keeps_the_dataset(space: Space) -> None:
    runtime = trainings.runtime("torchtune-llama3.2-1b", "torchtune", command=_COMMAND)
    (pod,) = trainings.run(space, runtime, trainjob("alone", "torchtune-llama3.2-1b"))
    recipe = ["full_finetune_single_device", "--config", "llama3_2/1B_full_single_device"]
    assert pod.command[:5] == ["tune", "run", *recipe]
    assert set(_DATASET + _MODEL) <= set(pod.command)
    trainings.assert_met([pod], "alone-node-0-0.alone")


def test_two_nodes_meet_at_pod_0_and_not_at_localhost(space: Space) -> None:
    runtime = trainings.runtime("torchtune-llama3.3-70b", "torchtune", command=_COMMAND)
    job = trainjob("big", "torchtune-llama3.3-70b", trainer={"numNodes": 2, "command": ["tune", "run"]})
    pods = trainings.run(space, runtime, job)
    trainings.assert_met(pods, "big-node-0-0.big")
    launch = ["tune", "run", "--rdzv_endpoint=big-node-0-0.big:29500", "full_finetune_distributed"]
    for pod in pods:
        assert pod.command[:6] == [*launch, "--config", "llama3_3/70B_full_multinode"]
        assert "--rdzv_endpoint=localhost:29500" not in pod.command


def test_the_training_starts_after_dataset_and_model_are_there(space: Space) -> None:
    runtime = trainings.runtime("torchtune-llama3.2-1b", "torchtune", command=_COMMAND, initializers=_INITIALIZERS)
    sources = {"dataset": {"storageUri": "hf://team/chats"}, "model": {"storageUri": "hf://team/llama"}}
    pods = trainings.run(space, runtime, trainjob("waits", "torchtune-llama3.2-1b", initializer=sources))
    (dataset,), (model,) = (trainings.ended(space, "waits", each) for each in _INITIALIZERS)
    assert (dataset.env["STORAGE_URI"], model.env["STORAGE_URI"]) == ("hf://team/chats", "hf://team/llama")
    assert dataset.resolved is model.resolved is None
    assert "MASTER_ADDR" not in {*dataset.env, *model.env}
    assert pods[0].started >= max(dataset.finished, model.finished)
    trainings.assert_met(pods, "waits-node-0-0.waits")
