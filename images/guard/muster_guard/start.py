"""The start of the guard: `muster_guard.pth` or `sitecustomize` imports it in every Python process, before the program.

It imports only modules that Python has already loaded, because most processes never train.
"""

import atexit
import os
import sys
import time

from muster_guard import watches

TYPE_CHECKING = False  # as in `typing`, which takes longer to import than this whole package may
if TYPE_CHECKING:
    from collections.abc import Callable

STARTED = time.monotonic()
MODE = os.environ.get("MUSTER_GUARD", "enforce")
_STATUS_SERVER = "KUBEFLOW_TRAINER_SERVER_URL"


def _posts() -> None:
    if _STATUS_SERVER in os.environ:
        from muster_guard import posts  # noqa: F401, PLC0415  # only in a TrainJob whose Trainer takes metrics


def _groups(module: object) -> None:
    from muster_guard import groups  # noqa: PLC0415  # only where torch is imported anyway

    groups.watch(module)


def _optimizers(module: object) -> None:
    from muster_guard import steps  # noqa: PLC0415  # as above

    steps.watch(module)
    _posts()


def _torch_saves(module: object) -> None:
    from muster_guard import writes  # noqa: PLC0415  # as above

    writes.watch(module, "save", 1, "f")


def _safetensors_saves(module: object) -> None:
    from muster_guard import writes  # noqa: PLC0415  # as above

    writes.watch(module, "save_file", 1, "filename")


def _averagers(module: object) -> None:
    from muster_guard import gradients  # noqa: PLC0415  # as above

    gradients.watch(module)


def _trainer(module: object) -> None:
    from muster_guard import measured  # noqa: PLC0415  # as above

    measured.watch_trainer(module)


def _jax(module: object) -> None:
    from muster_guard import processes  # noqa: PLC0415  # only where JAX is imported anyway

    processes.watch(module)
    _posts()


def _optax(module: object) -> None:
    from muster_guard import processes  # noqa: PLC0415  # as above

    processes.watch_updates(module)


def _kubeflow(module: object) -> None:
    from muster_guard import posts  # noqa: PLC0415  # as above

    posts.watch(module)


def marks() -> "list[str]":
    """Return where the ranks of this launcher may leave a mark; the image may be read-only in all but one of these."""
    folders = (os.environ.get("TMPDIR"), "/tmp", "/dev/shm")  # noqa: S108  # the file name is unique to this launcher
    return [f"{folder}/muster-guard-{os.environ.get('MUSTER_GUARD_TOP', '0-0')}" for folder in folders if folder]


def _end() -> None:
    if any(map(os.path.exists, marks())):
        from muster_guard import calls, endings  # noqa: PLC0415  # it takes longer to import than all else here

        calls.harmless(endings.pass_on)()


if MODE != "off":
    _WATCHED: "dict[str, Callable[[object], None]]" = {
        "torch.distributed.distributed_c10d": _groups,
        "torch.optim.optimizer": _optimizers,
        "torch.serialization": _torch_saves,
        "safetensors.torch": _safetensors_saves,
        "transformers.trainer_callback": _trainer,
        "torch.distributed.algorithms.model_averaging.averagers": _averagers,
        "accelerate.local_sgd": _averagers,
        "torchft.local_sgd": _averagers,
        "jax._src.distributed": _jax,
        "optax._src.update": _optax,
    }
    if _STATUS_SERVER in os.environ:
        _WATCHED["transformers.integrations.integration_utils"] = _kubeflow
    sys.meta_path.insert(0, watches.Watcher(_WATCHED))
    if "MUSTER_GUARD_TOP" not in os.environ:
        os.environ["MUSTER_GUARD_TOP"] = f"{os.getpid()}-{time.time_ns():x}"
        # What is registered first runs last, so this runs after the launcher's own functions.
        atexit.register(_end)
