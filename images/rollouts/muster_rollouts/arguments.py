"""The flags of `python -m muster_rollouts.train`, beside those of TRL's AsyncGRPOConfig.

Those of a model and of LoRA are called as `trl grpo` calls them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from trl import ScriptArguments, TrlParser
from trl.experimental.async_grpo import AsyncGRPOConfig

from muster_rollouts import answers

__all__ = ["Arguments", "make_parser"]


@dataclass
class Arguments(ScriptArguments):  # type: ignore[misc]  # TRL has no types
    """What is trained, on which questions, and how answers are rewarded.

    Attributes:
        model_name_or_path: a folder, or a name of the hub; the sampler serves the same.
        model_revision: of the name.
        use_peft: whether a LoRA adapter is trained, and sent, instead of the whole model.
        lora_r: its rank.
        lora_alpha: its scale is lora_alpha / lora_r.
        lora_target_modules: names of the modules that get matrices; by default what PEFT takes for the model.
        reward_funcs: `answer_reward`, those of `trl grpo`, or dotted paths of functions.
        system_prompt: what stands before each question.
        question_column: the column of the question, where the data set has no column `prompt`.
        answer_column: the column of the right answer.
        answer_pattern: a regular expression (RE2) with a group `answer`.
        reward_right: of `answer_reward`, for the right answer.
        reward_wrong: for another one, and for none.
        scale_rewards: whether advantages are divided by the standard deviation of their group.
        loss_type: `tokens` divides by the number of tokens, as TRL does; `dr_grpo` by a constant.
        without_kernels: whether torch computes attention, for CPUs and for GPUs that FlashAttention 3 does not know.
    """

    model_name_or_path: str = field(default="", metadata={"help": "A folder, or a name of the hub."})
    model_revision: str = field(default="main", metadata={"help": "Of the name on the hub."})
    use_peft: bool = field(default=False, metadata={"help": "Train a LoRA adapter."})
    lora_r: int = field(default=16, metadata={"help": "Rank of the adapter."})
    lora_alpha: int = field(default=32, metadata={"help": "The adapter's scale is lora_alpha / lora_r."})
    lora_target_modules: list[str] | None = field(default=None, metadata={"help": "Modules that get matrices."})
    reward_funcs: list[str] | None = field(
        default=None, metadata={"help": "answer_reward, a reward of TRL's, or the dotted path of a function."}
    )
    system_prompt: str = field(default="", metadata={"help": "Stands before each question."})
    question_column: str = field(default="question", metadata={"help": "Where the data set has no column prompt."})
    answer_column: str = field(default="answer", metadata={"help": "Of the right answer, for answer_reward."})
    answer_pattern: str = field(
        default=answers.NUMBER, metadata={"help": "RE2 with a group answer, for answer_reward."}
    )
    reward_right: float = field(default=1.0, metadata={"help": "Of answer_reward, for the right answer."})
    reward_wrong: float = field(default=-0.2, metadata={"help": "Of answer_reward, for any other, and for none."})
    scale_rewards: str = field(
        default="group",
        metadata={"help": "none: advantages are not divided (Dr. GRPO).", "choices": ["group", "none"]},
    )
    loss_type: str = field(
        default="tokens",
        metadata={"help": "dr_grpo: divided by a constant, not by tokens.", "choices": ["tokens", "dr_grpo"]},
    )
    without_kernels: bool = field(default=False, metadata={"help": "Attention by torch, on any device, without a hub."})


def make_parser() -> Any:
    """Return TRL's parser for all flags, which reads `--config FILE` too."""
    return TrlParser((Arguments, AsyncGRPOConfig), prog="muster_rollouts.train")
