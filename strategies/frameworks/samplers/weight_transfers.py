"""Transfers: how weights travel from the training to its sampler.

TRL's own way is NCCL, from the GPU of the first rank to those of the sampler. NCCL needs a GPU on both sides, and two
different ones (trl `generation/vllm_generation.py`, NotImplementedError off CUDA; NCCL "Duplicate GPU detected").
Another backend of `--weight-transfer-config` is one that a plugin of vLLM brings, with rules of its own.

One of these is ours, by files on a volume of both roles, where both images hold `muster_weights`. The variable
MUSTER_WEIGHTS_FOLDER switches it on in the trainers, and names the folder to the sampler.
"""

from __future__ import annotations

import json
from typing import Any

from muster.strategies.documents import pods
from muster.strategies.frameworks.samplers import role_pairs
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.frameworks.vllm import serve_arguments
from muster.strategies.frameworks.vllm.vllm_servers import Server
from muster.strategies.jobs.jobs import Job

__all__ = ["FILES", "FLAG", "FOLDER", "backend", "config", "folder", "folders", "is_nccl", "sends_files"]

FLAG = "weight-transfer-config"
FOLDER = "MUSTER_WEIGHTS_FOLDER"
FILES = "muster_files"
_NCCL = "nccl"
_COLLECTIVE = frozenset({"nccl", "nccl_m2n", "sparse_nccl"})


def backend(server: Server | None) -> str | None:
    """Return the backend that a sampler names: "" for none, None where it cannot be seen."""
    if server is None or server.open or serve_arguments.hidden(server.text(FLAG) or ""):
        return None
    written = server.text(FLAG)
    if written is None:
        return ""
    try:
        found: Any = json.loads(written)
    except (ValueError, RecursionError):
        return None
    named = found.get("backend", "nccl") if isinstance(found, dict) else None
    return named if isinstance(named, str) else None


def is_nccl(pair: Pair) -> bool:
    """Whether weights travel by NCCL, which is what Muster writes where nothing is said."""
    if pair.sampler.trls:
        return True
    named = backend(pair.sampler.server)
    return named in _COLLECTIVE or (named == "" and not any(folders(pair)))


def sends_files(pair: Pair) -> bool:
    """Whether weights travel by files, in our own way."""
    named = backend(pair.sampler.server)
    return named == FILES or (named == "" and any(folders(pair)))


def folders(pair: Pair) -> tuple[str, str]:
    """Return the folder for weights that the training names, and the sampler's; "" for none.

    The sampler's is the one that Muster will write where it names none: that of the first training that asks it.
    """
    return folder(pair.job, pair.node), folder(pair.job, pair.sampler.place) or _first(pair)


def _first(pair: Pair) -> str:
    """Return the folder of the first training that asks the sampler and names one; looked for once for all of them."""
    key, job = (_first, pair.sampler.place.job_path), pair.job
    asking = role_pairs.asking
    return role_pairs.kept(job, key, job.changes.count, lambda: next(filter(None, map(_mine, asking(pair))), ""))


def _mine(pair: Pair) -> str:
    return folder(pair.job, pair.node)


def folder(_job: Job, place: pods.Place) -> str:
    """Return the folder for weights that a container names, a reference to what its source says, or ""."""
    entry = pods.find_env(place.raw.get("env"), FOLDER)
    return "" if entry is None else str(entry.get("value") or f"$({FOLDER})")


def config(pair: Pair) -> str:
    """Return the value of the flag to write: by files where a role names a folder for them, else by NCCL."""
    return json.dumps({"backend": FILES if any(folders(pair)) else _NCCL}, separators=(",", ":"))
