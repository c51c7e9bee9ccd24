"""The start: `muster_telemetry.pth` imports it in every Python process of the image, and it imports nothing large."""

import os
import sys

from muster_guard import watches

__all__ = ["hooks"]

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than this may
if TYPE_CHECKING:
    from collections.abc import Callable


def _trainer(module: object) -> None:
    from muster_telemetry import callbacks  # noqa: PLC0415  # only where transformers is imported anyway

    callbacks.watch(module)


def _generation(module: object) -> None:
    from muster_telemetry import syncs  # noqa: PLC0415  # only where TRL is imported anyway

    syncs.watch_generation(module)


def _async_trainer(module: object) -> None:
    from muster_telemetry import syncs  # noqa: PLC0415  # as above

    syncs.watch_async_trainer(module)


def hooks() -> "dict[str, Callable[[object], None]]":
    """Return what is called when a module of transformers or TRL was imported, by its name."""
    return {
        "transformers.trainer": _trainer,
        "trl.generation.vllm_generation": _generation,
        "trl.experimental.async_grpo.async_grpo_trainer": _async_trainer,
    }


if os.environ.get("MUSTER_TELEMETRY", "on") != "off":
    sys.meta_path.insert(0, watches.Watcher(hooks()))
