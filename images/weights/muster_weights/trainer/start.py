"""The start of the trainer's side: `muster_weights.pth` imports it in every Python process of the image.

Nothing happens without MUSTER_WEIGHTS_FOLDER. With it, TRL's clients for weights are replaced when TRL is imported, and
nothing is imported before that.
"""

import os
import sys

__all__ = ["hooks"]

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than this may
if TYPE_CHECKING:
    from collections.abc import Callable


def _clients(module: object) -> None:
    from muster_weights.trainer import grpo  # noqa: PLC0415  # only where TRL is imported anyway

    grpo.replace_client(module)


def _generation(module: object) -> None:
    from muster_weights.trainer import probes  # noqa: PLC0415  # as above

    probes.watch_generation(module)


def _transfer(module: object) -> None:
    from muster_weights.trainer import asyncs  # noqa: PLC0415  # as above

    asyncs.replace_client(module)


def _async_trainer(module: object) -> None:
    from muster_weights.trainer import probes  # noqa: PLC0415  # as above

    probes.watch_async_trainer(module)


def _trainer(module: object) -> None:
    from muster_weights.trainer import differences  # noqa: PLC0415  # as above

    differences.watch(module)


def hooks() -> "dict[str, Callable[[object], None]]":
    """Return what is called when a module of TRL or transformers was imported, by its name."""
    return {
        "trl.generation.vllm_client": _clients,
        "trl.generation.vllm_generation": _generation,
        "trl.experimental.async_grpo.weight_transfer": _transfer,
        "trl.experimental.async_grpo.async_grpo_trainer": _async_trainer,
        "transformers.trainer": _trainer,
    }


if os.environ.get("MUSTER_WEIGHTS_FOLDER"):
    from muster_guard import watches

    sys.meta_path.insert(0, watches.Watcher(hooks()))
