"""What we take from torch and accelerate is where it was; each failure names what moved.

TRL's methods, flags and presets are compared in tests/contract/trl.
"""

import json
import subprocess
from pathlib import Path

import pytest

from muster.strategies.frameworks.trl import flags

PROBE = Path(__file__).parent / "programs" / "upstream.py"
C10D = "torch.distributed.distributed_c10d"
ASKED = {
    "has": (
        # images/guard/muster_guard/groups.py wraps and calls these.
        f"{C10D}:init_process_group",
        f"{C10D}:_new_process_group_helper",
        f"{C10D}:ProcessGroup._get_backend",
        f"{C10D}:ProcessGroupGloo.name",
        f"{C10D}:get_world_size",
        # images/guard/muster_guard/steps.py counts by these.
        "torch.optim.optimizer:register_optimizer_step_pre_hook",
        "torch.optim.optimizer:register_optimizer_step_post_hook",
        "torch.distributed:is_initialized",
        # images/guard/muster_guard/gradients.py, exchanges.py, writes.py and measured.py use these.
        f"{C10D}:ProcessGroup._get_sequence_number_for_group",
        f"{C10D}:_get_default_store",
        f"{C10D}:_world.pg_map",
        f"{C10D}:isend",
        f"{C10D}:irecv",
        f"{C10D}:send",
        f"{C10D}:recv",
        "torch.distributed:HashStore.compare_set",
        "torch.distributed.fsdp._common_utils:FSDP_FLATTENED",
        "torch.distributed.algorithms.model_averaging.averagers:ModelAverager",
        "accelerate.local_sgd:LocalSGD",
        "torch.serialization:save",
        "safetensors.torch:save_file",
        "transformers.trainer_callback:CallbackHandler.on_train_begin",
        "torch.cuda:is_current_stream_capturing",
        "torch.cuda:memory_reserved",
        "torch.distributed:get_rank",
        # images/weights/muster_weights/trainer replaces and wraps these.
        "trl.generation.vllm_client:VLLMClient.init_communicator",
        "trl.generation.vllm_client:VLLMClient.update_named_params",
        "trl.generation.vllm_client:VLLMClient.generate",
        "trl.generation.vllm_client:VLLMClient.close_communicator",
        "trl.generation.vllm_client:VLLMClient._start_weight_update",
        "trl.generation.vllm_generation:VLLMGeneration.sync_weights",
        "trl.experimental.async_grpo.weight_transfer:WeightTransferClient",
        "trl.experimental.async_grpo.async_grpo_trainer:AsyncGRPOTrainer._sync_weight",
        "transformers.trainer:DEFAULT_CALLBACKS",
        # images/telemetry/muster_telemetry watches these.
        "transformers.trainer:TrainerCallback.on_log",
        "transformers.trainer:TrainerCallback.on_train_end",
        # What the commands name that strategies write.
        "torch.distributed.run:main",
        "accelerate.commands.launch:launch_command",
        "trl.cli.main:main",
    ),
    "takes": (f"{C10D}:init_process_group(init_method", f"{C10D}:init_process_group(store"),
    "reads": (
        # torchrun gives these to its ranks; images/guard/muster_guard reads them.
        "torch/distributed/elastic=TORCHELASTIC_RUN_ID",
        "torch/distributed/elastic=LOCAL_RANK",
        # images/telemetry/muster_telemetry/measures.py reads these from what TRL logs.
        "trl/trainer=sampling/sampling_logp_difference/mean",
        "trl/trainer=sampling/importance_sampling_ratio/mean",
        'trl/trainer=["num_tokens"]',
        "trl/experimental/async_grpo=sample/staleness_mean",
        "trl/experimental/async_grpo=sample/dropped_stale_total",
        "trl/experimental/async_grpo=batch/dropped_oversize_total",
        "trl/experimental/async_grpo=perf/weight_sync_s",
        "trl/experimental/async_grpo=perf/trained_tok_s_wall_clock",
        # images/guard/muster_guard/steps.py marks its hooks with it.
        "torch/_dynamo=_torchdynamo_disable",
        "accelerate=ACCELERATE_USE_CPU",
        "accelerate=WORLD_SIZE",
    ),
}
# A preset's environment that nobody reads in the workers would be a preset without effect.
PRESETS = sorted({name for preset in flags.presets() for name in flags.preset_environment(preset)})


@pytest.fixture(scope="module")
def found(python):
    """What the installed packages have."""
    asked = {kind: list(paths) for kind, paths in ASKED.items()}
    asked["reads"] += [f"accelerate={name}" for name in PRESETS]
    done = subprocess.run(
        [python, PROBE], input=json.dumps(asked), capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(("kind", "path"), [(kind, path) for kind, paths in ASKED.items() for path in paths])
def test_is_where_it_was(found, kind, path):
    assert found[kind][path], f"{path} has moved; look for who uses it"


@pytest.mark.parametrize("name", PRESETS)
def test_a_presets_environment_is_read_by_the_workers(found, name):
    assert found["reads"][f"accelerate={name}"], f"accelerate reads {name} no more"
