"""The tensors of the model that vLLM was started with, by the headers of its files: what each version must have."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError
from safetensors import safe_open

from muster_weights.sampler.states import Shapes

__all__ = ["of"]


def of(model: str, revision: str | None) -> Shapes:
    """Return the shapes of all tensors by name; none where the model is not here as safetensors.

    Args:
        model: a folder, or a name of the hub that vLLM has fetched.
        revision: of the name.
    """
    return {name: shape for file in _files(model, revision) for name, shape in _headers(file)}


def _files(model: str, revision: str | None) -> list[Path]:
    folder = Path(model) if Path(model).is_dir() else _fetched(model, revision)
    if folder is None:
        return []
    whole = folder / "model.safetensors"
    return [whole] if whole.exists() else sorted(folder.glob("model-*.safetensors"))


def _fetched(model: str, revision: str | None) -> Path | None:
    try:
        return Path(snapshot_download(model, revision=revision, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError):
        return None


def _headers(file: Path) -> list[tuple[str, tuple[int, ...]]]:
    with safe_open(file, "pt") as opened:
        return [(name, tuple(opened.get_slice(name).get_shape())) for name in opened.keys()]  # noqa: SIM118  # no mapping
