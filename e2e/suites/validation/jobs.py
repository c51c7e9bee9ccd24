"""The jobs of these tests: good ones, and ones with several mistakes at once."""

from __future__ import annotations

from e2e.suites.support import documents

CLUSTER = "ClusterTrainingRuntime"
NEEDED = ("--model_name_or_path=Qwen/Qwen2.5-0.5B", "--dataset_name=trl-lib/Capybara", "--output_dir=/tmp/output")
GPU = {"limits": {"nvidia.com/gpu": 1}}
MENDED = ["torchrun", "-m", "trl.scripts.sft"]
MISTAKES = {
    "spec.trainer.numNodes": "must be at least 1",
    "spec.trainer.args[4]": "did you mean --learning_rate?",
    "spec.trainer.args[3]": "bf16 and fp16 cannot both be on",
}
"""What is wrong with a `wrong` job: field and words."""


def sft(name="sft", *, args=NEEDED, **options):
    """A TrainJob whose command Muster corrects; it stays suspended, for nothing of it shall run."""
    trainer = {"command": ["trl", "sft"], "args": list(args), "numNodes": 2, "resourcesPerNode": GPU}
    trainer |= options.pop("trainer", {})
    return documents.trainjob(name, "trl-distributed", kind=CLUSTER, trainer=trainer, suspend=True, **options)


def wrong(name="wrong", **options):
    """A TrainJob with three mistakes; one without nodes has no launch to correct."""
    args = (*NEEDED[:2], "--bf16=true", "--fp16=true", "--learning_rte=2e-5", NEEDED[2])
    return sft(name, args=args, trainer={"numNodes": 0}, **options)


def script(name="script", *, trainer=None, **options):
    """A TrainJob that passes, and that Muster warns about, because it trains nothing."""
    trainer = trainer or {"command": ["bash", "-c"], "args": ["echo train"], "numNodes": 2}
    return documents.trainjob(name, "trl-distributed", kind=CLUSTER, trainer=trainer, suspend=True, **options)


def sampler(name="sampler", *, features="sleep", size=1, **options):
    """A JobSet with a vLLM server on one GPU, which Muster adds flags to."""
    return documents.jobset(
        name,
        "vllm",
        args=["--model=Qwen/Qwen2.5-0.5B", f"--tensor-parallel-size={size}"],
        resources=GPU,
        annotations={"muster.dev/vllm-features": features},
        suspend=True,
        **options,
    )
