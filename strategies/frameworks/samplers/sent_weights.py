"""What a training sends to its sampler: whole weights, and how they travel, or adapters.

TRL's own way of weights is NCCL, from the GPU of the first rank to those of the sampler. NCCL needs a GPU on both
sides, and two different ones (trl `generation/vllm_generation.py`, NotImplementedError off CUDA; NCCL "Duplicate GPU
detected"). Another backend of `--weight-transfer-config` is one that a plugin of vLLM brings, with rules of its own.
One of these is ours, by files on a volume of both roles, where both images hold `muster_weights`. The variable
MUSTER_WEIGHTS_FOLDER switches it on in the trainers, and names the folder to the sampler.

TRL's `AsyncGRPOTrainer` with PEFT writes each version of its adapters to a folder and lets vLLM load it. It stops at
its start where vLLM can hold fewer than `max_staleness + 2` adapters, or none of its rank (trl
`experimental/async_grpo`). It has no command of its own, so only flags that a script is given under TRL's own names are
read. `GRPOTrainer` merges its adapters and needs none of this. The program of our images (`muster_rollouts.train`)
sends them by files (`images/weights`), so that nothing but the folder for these has to be the same in both roles.
"""

from __future__ import annotations

import json
from typing import Any

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.documents.pods import Place
from muster.strategies.frameworks.samplers import role_pairs
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.frameworks.samplers.sampled_trainings import Training
from muster.strategies.frameworks.trl import flags
from muster.strategies.frameworks.vllm import serve_arguments
from muster.strategies.frameworks.vllm.vllm_flags import known
from muster.strategies.frameworks.vllm.vllm_servers import Server

__all__ = [
    "FLAG",
    "FOLDER",
    "Adapters",
    "backend",
    "by_files",
    "config",
    "find_adapters",
    "folder",
    "folders",
    "is_nccl",
    "sends_files",
]

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

    The sampler's is the one that Muster will write where it names none: that of the first training that asks it, looked
    for once for all of them.
    """
    job, sampler = pair.job, pair.sampler.place

    def first() -> str:
        return next(filter(None, (folder(each.node) for each in role_pairs.asking(pair))), "")

    theirs = folder(sampler) or role_pairs.kept(job, (folders, sampler.job_path), job.changes.count, first)
    return folder(pair.node), theirs


def folder(place: Place) -> str:
    """Return the folder for weights that a container names, a reference to what its source says, or ""."""
    entry = place.container.find_env(FOLDER)
    return "" if entry is None else entry.value or f"$({FOLDER})"


def config(pair: Pair) -> str:
    """Return the value of the flag to write: by files where a role names a folder for them, else by NCCL."""
    return json.dumps({"backend": FILES if any(folders(pair)) else _NCCL}, separators=(",", ":"))


# --- adapters ---------------------------------------------------------------------------------------------------------

_STALENESS = "4"
"""`AsyncGRPOConfig.max_staleness` where it is not given."""
_SPARE = 2
_DIGITS = 6
_TRUE = frozenset({"true", "1", "yes", "y", "t", ""})


class Adapters(Struct, frozen=True):
    """What is known of the adapters that a training hands to its sampler.

    Attributes:
        rank: their rank, None where it cannot be seen.
        count: how many vLLM has to hold at once, None where it cannot be seen.
        output: folder of the training's output, None where it cannot be seen, or no adapter goes that way.
        because: what says that there are adapters.
        index: place of the flag that says so among the training's words, None for an annotation.
    """

    rank: int | None
    count: int | None
    output: str | None
    because: str
    index: int | None = None

    @property
    def fitting_rank(self) -> int | None:
        """The lowest limit of ranks that vLLM takes and that holds the rank; None where it is not needed."""
        limits = sorted(int(each) for each in known("--max-lora-rank").choices)
        return next((each for each in limits if self.rank is not None and each >= self.rank), None)


def find_adapters(pair: Pair) -> Adapters | None:
    """Return what is known of a training's adapters; None where nothing says that a sampler loads any."""
    if pair.training.found is not None:
        return _of_program(pair)  # TRL's own commands merge adapters into the weights
    given = _flags(pair.training.site.argv)
    asked = pair.job.annotation(names.VLLM_FEATURES_ANNOTATION)
    if "max_staleness" in given and _is_on(given):
        name = "max_staleness"
        because, index = f"the script is given --{name} with adapters", given[name][1]
    elif asked is not None and "lora" in [word.strip() for word in asked[0].split(",")]:
        because, index = f"{asked[1]} {names.VLLM_FEATURES_ANNOTATION} asks for lora", None
    else:
        return None
    stale = _number(given.get("max_staleness", (_STALENESS, 0))[0])
    output = given.get("output_dir", ("", 0))[0]
    return Adapters(
        rank=_number(given.get("lora_r", ("", 0))[0]),
        count=None if stale is None else stale + _SPARE,
        output=output if output and "$" not in output else None,
        because=because,
        index=index,
    )


def by_files(pair: Pair) -> bool:
    """Whether the adapters of a training go by files that the sampler verifies, through routes of their own."""
    return _of_program(pair) is not None


def _of_program(pair: Pair) -> Adapters | None:
    """Return the adapters of a program of our images; None where it has none, or nothing says so."""
    training = pair.training
    found = training.found
    if found is None or not found.is_program or training.parsed.values.get("use_peft") is not True:
        return None
    rank, stale = (_known(training, found.method, name) for name in ("lora_r", "max_staleness"))
    count = None if stale is None else stale + _SPARE
    return Adapters(rank, count, None, f"{found.called} is given --use_peft", training.parsed.places.get("use_peft"))


def _known(training: Training, method: str, name: str) -> int | None:
    """Return a number that a program is given or has by default; None where it is known only in the pod."""
    spec = flags.spec(method, f"--{name}")
    default = spec.default if spec is not None and not training.open else ""
    return _number(str(training.parsed.values.get(name, default)))


_Flags = dict[str, tuple[str, int]]
"""Flags of a program by name with _ for -: their value, "" for none, and their place."""


def _is_on(given: _Flags) -> bool:
    return given.get("use_peft", ("no", 0))[0].lower() in _TRUE or "lora_r" in given


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def _flags(argv: tuple[str, ...]) -> _Flags:
    found: _Flags = {}
    for index, (word, following) in enumerate(zip(argv, (*argv, "--")[1:], strict=True)):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            text = value if equals else "" if following.startswith("--") else following
            found[name.replace("-", "_")] = text, index
    return found
