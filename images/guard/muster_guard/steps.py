"""The steps of torch's optimizers: before the first one the world size is compared, and all of them are counted."""

from __future__ import annotations

from typing import Any

from muster_guard import calls, measured, trainings

__all__ = ["watch"]


def watch(module: Any) -> None:
    """Hook into every optimizer, by `torch.optim.optimizer`'s own hooks.

    Source: torch/optim/optimizer.py, `register_optimizer_step_pre_hook` and `..._post_hook`, public since torch 2.0.
    """
    module.register_optimizer_step_pre_hook(_before)
    module.register_optimizer_step_post_hook(_after)


@calls.harmless
def _before(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    if trainings.current is None:
        trainings.begin(*trainings.place())
    measured.before(optimizer)


@calls.harmless
def _after(optimizer: Any, _args: Any, _kwargs: Any) -> None:
    if trainings.current is not None:
        trainings.current.stepped(optimizer)
    measured.after(optimizer)


# A step may be compiled. torch._dynamo reads this mark, and is too slow to import for its decorator.
for _hook in (_before, _after):
    _hook._torchdynamo_disable = True  # type: ignore[attr-defined]  # noqa: SLF001  # our own functions
