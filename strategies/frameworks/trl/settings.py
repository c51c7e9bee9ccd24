"""Settings: one flag that a trainer refuses because of what another one says, whatever the number of ranks is.

Each is looked at only where its flag is written. Sources: transformers 5.23 `training_args.py` (`__post_init__`); trl
1.16.0 `trl/trainer/kto_trainer.py` (calculate_KL), `grpo_config.py` (`__post_init__`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from strategies.documents.findings import Finding, error
from strategies.frameworks.trl.arguments import Arguments

__all__ = ["check"]

_Field = Callable[[str], str]
_Fault = tuple[str, str]
"""The flag, and what is wrong with it."""
_EVALUATED = frozenset({"reduce_lr_on_plateau", "greedy"})
_STOPS = "and TRL stops at its start"


def check(given: Arguments, field: _Field) -> Iterator[Finding]:
    """Yield an error for each flag that the settings beside it do not allow.

    Args:
        given: the arguments of one invocation, with their defaults.
        field: returns the field path of a flag.
    """
    for name in given.values:
        judge = _JUDGES.get(name)
        message = judge(given) if judge is not None else ""
        if message:
            yield error(field(name), f"--{name} {given.text(name)}", message, rule="trl/contradiction")


def _prefetch(given: Arguments) -> str:
    if given.text("dataloader_num_workers") != "0" or given.number("dataloader_prefetch_factor") is None:
        return ""
    return f"needs a --dataloader_num_workers of 1 or more, {_STOPS}; add it, or remove this"


def _scheduler(given: Arguments) -> str:
    if given.text("lr_scheduler_type") not in _EVALUATED or given.text("eval_strategy") != "no":
        return ""
    return f"follows an evaluation, and there is none, {_STOPS}; add --eval_strategy, or choose another one"


def _logging(given: Arguments) -> str:
    if given.text("logging_steps") not in ("0", "0.0") or given.text("logging_strategy") != "steps":
        return ""
    return f"is not a number of steps, {_STOPS}; raise it, or add --logging_strategy no"


def _pairs(given: Arguments) -> str:
    if given.method != "kto" or given.number("per_device_train_batch_size") != 1 or given.text("loss_type") != "kto":
        return ""
    return f"leaves nothing to compare an answer with, as the loss does within each batch, {_STOPS}; raise it"


def _order(given: Arguments) -> str:
    if (
        given.method != "kto"
        or given.text("train_sampling_strategy") == "sequential"
        or given.text("loss_type") != "kto"
    ):
        return ""
    return f"changes what the loss compares an answer with, {_STOPS}; use sequential, or --loss_type apo_zero_unpaired"


def _completions(given: Arguments) -> str:
    if given.text("log_completions") != "False" or given.text("log_completions_hub_repo") in (None, "", "None"):
        return ""
    return f"needs --log_completions, {_STOPS}; add it, or remove this"


_JUDGES: dict[str, Callable[[Arguments], str]] = {
    "dataloader_prefetch_factor": _prefetch,
    "lr_scheduler_type": _scheduler,
    "logging_steps": _logging,
    "per_device_train_batch_size": _pairs,
    "train_sampling_strategy": _order,
    "log_completions_hub_repo": _completions,
}
