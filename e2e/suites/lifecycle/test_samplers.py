"""A training with its sampler in one job: both roles as Muster wrote them, in order, over suspensions."""

from __future__ import annotations

import pytest

from e2e.suites.lifecycle import lives, scenes
from e2e.suites.lifecycle.lives import Life
from e2e.suites.support import documents, waits

GPU = {"limits": {"nvidia.com/gpu": 1}}
GRPO = ["torchrun", "-m", "trl.scripts.grpo", "--use_vllm", "--reward_funcs=think_format_reward"]
ARGS = ["--model_name_or_path=Qwen/Qwen2.5-0.5B", "--dataset_name=trl-lib/DeepMath-103K"]
ADDED = [
    "--weight-transfer-config",
    '{"backend":"nccl"}',
    "--logprobs-mode",
    "processed_logprobs",
    "--dtype",
    "bfloat16",
]


def grpo(*, args=None):
    """A runtime with a sampler, whose own arguments Trainer applies again and again."""
    runtime = documents.training_runtime("grpo", "trl", nodes=2, command=GRPO, resources=GPU)
    spec = runtime["spec"]["template"]["spec"]
    (node,) = spec["replicatedJobs"]
    serving = {"name": "server", "image": documents.IMAGE, "command": ["vllm", "serve"], "resources": GPU}
    serving |= {"args": args} if args else {}
    sampler = {
        "name": "sampler",
        "template": {
            "metadata": {"labels": {"muster.dev/role": "sampler"}},
            "spec": {"template": {"spec": documents.pod_spec(serving)}},
        },
    }
    node["dependsOn"] = [{"name": "sampler", "status": "Ready"}]
    spec["replicatedJobs"] = [sampler, node]
    spec["successPolicy"] = {"operator": "All", "targetReplicatedJobs": ["node"]}
    return runtime


WAYS = [
    pytest.param(None, id="added", marks=pytest.mark.thorough),
    pytest.param(["--max-model-len=1024"], id="behind the runtime's own"),
]


@pytest.mark.parametrize("args", WAYS)
def test_a_training_and_its_sampler_find_each_other_and_live_in_a_queue(space, installation, args):
    job = documents.trainjob("life", "grpo", trainer={"args": ARGS}, suspend=True)
    lives.submit(space, grpo(args=args), job)
    life = Life(space, "life", installation)
    jobset = life.wait("suspended").jobset

    assert space.trainjob("life")["spec"]["trainer"]["args"] == [
        *ARGS,
        "--vllm_mode=server",
        "--vllm_server_base_url=http://$(MUSTER_SAMPLER):8000",
    ]
    env = {each["name"]: each.get("value") for each in scenes.container(jobset)["env"]}
    assert env["MUSTER_SAMPLER"] == "life-sampler-0-0.life"
    serving = scenes.container(jobset, "sampler")
    assert serving["args"] == [*(args or []), "--model", "Qwen/Qwen2.5-0.5B", *ADDED]
    assert serving["readinessProbe"]["httpGet"]["path"] == "/health"

    life.poke()
    life.resume()
    waits.until("the training to start", lambda: len(scenes.look(space, "life").jobs) == 2)
    scene = life.wait("running")
    assert len(scene.pods) == 3
    life.suspend()
    life.resume()
    life.delete()
