"""torchtune's recipes train for real, on a small model, launched as the strategy writes it, and the guard sees them.

64 rows in batches of 4 are 16 steps of one rank and 8 of two.
"""

import socket

import pytest

from tests.contract.engines.conftest import losses

LOADS = "import sys, transformers; transformers.AutoModelForCausalLM.from_pretrained(sys.argv[1])"


@pytest.fixture
def endpoint():
    """The option by which the strategy lets all meet."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"--rdzv_endpoint=127.0.0.1:{found.getsockname()[1]}"


def test_a_single_device_trains_the_whole_model_and_its_checkpoint_loads(tune, nodes):
    done, output = tune(
        "full_finetune_single_device", "llama3_2/1B_full_single_device", "optimizer_in_bwd=False", each=1
    )

    assert done.codes == [0], done.output
    (report,) = done.reports()
    assert (report["worldSize"], report["expected"], report["steps"]) == (1, "1", 16)
    seen = losses(output)
    assert seen[-1] < seen[0] / 2, seen
    loaded = nodes("python", "-c", LOADS, str(output / "epoch_0"))
    assert loaded.codes == [0], loaded.output


@pytest.mark.thorough
def test_a_single_device_trains_adapters(tune):
    done, output = tune(
        "lora_finetune_single_device",
        "llama3_2/1B_lora_single_device",
        "model.lora_attn_modules=[q_proj,v_proj]",
        "model.lora_rank=8",
        "model.lora_alpha=16",
        "lr_scheduler.num_warmup_steps=1",
        model="lora_llama3_2",
    )

    assert done.codes == [0], done.output
    seen = losses(output)
    assert seen[-1] < seen[0], seen
    assert (output / "epoch_0" / "adapter_model.safetensors").exists()


@pytest.mark.thorough
def test_the_processes_of_one_node_train_together_and_one_writes(tune, nodes, endpoint):
    done, output = tune("full_finetune_distributed", "llama3_2/1B_full", each=2, options=[endpoint])

    assert done.codes == [0], done.output
    assert [report["worldSize"] for report in done.reports()] == [2, 2]
    assert {report["steps"] for report in done.reports()} == {8}
    seen = losses(output)
    assert seen[-1] < seen[0], seen
    loaded = nodes("python", "-c", LOADS, str(output / "epoch_0"))
    assert loaded.codes == [0], loaded.output


def test_two_nodes_train_together_by_the_config_for_several_nodes(tune, endpoint):
    apart = ["~custom_sharded_layers"]  # of a model whose embeddings are not tied

    done, output = tune("full_finetune_distributed", "llama3_3/70B_full_multinode", *apart, count=2, options=[endpoint])

    assert done.codes == [0, 0], done.output
    assert {(report["rank"], report["worldSize"]) for report in done.reports()} == {(0, 2), (1, 2)}
    assert len(losses(output)) == 8
    assert list(output.glob("epoch_0/*.safetensors"))


@pytest.mark.thorough
def test_a_node_whose_launch_names_no_rendezvous_would_train_alone_and_is_ended(tune):
    alone = ["--nproc_per_node=1"]

    done, output = tune("full_finetune_distributed", "llama3_2/1B_full", options=alone, MUSTER_EXPECTED_WORLD_SIZE="2")

    assert done.codes == [78], done.output
    assert "2 were asked for" in done.messages[0]
    assert not list(output.glob("epoch_0/*.safetensors"))
