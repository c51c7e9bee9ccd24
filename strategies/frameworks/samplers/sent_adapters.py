"""Adapters: what a sampler needs to load the adapters of a training while it runs.

TRL's `AsyncGRPOTrainer` with PEFT writes each version to a folder and lets vLLM load it. It stops at its start where
vLLM can hold fewer than `max_staleness + 2` adapters, or none of its rank (trl `experimental/async_grpo`). It has
no command of its own, so only flags that a script is given under TRL's own names are read. `GRPOTrainer` merges its
adapters and needs none of this. The program of our images (`muster_rollouts.train`) sends them by files
(`images/weights`), so that nothing but the folder for these has to be the same in both roles.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from muster.strategies.documents import names
from muster.strategies.frameworks.samplers.role_pairs import Pair
from muster.strategies.frameworks.samplers.sampled_trainings import HIDDEN, Training
from muster.strategies.frameworks.trl import flags
from muster.strategies.frameworks.vllm.vllm_flags import known

__all__ = ["Adapters", "by_files", "find"]

_STALENESS = 4
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


def find(pair: Pair) -> Adapters | None:
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
    stale = _number(given, "max_staleness", _STALENESS)
    output = given.get("output_dir", ("", 0))[0]
    return Adapters(
        rank=_number(given, "lora_r", None),
        count=None if stale is None else stale + _SPARE,
        output=output if output and not _hidden(output) else None,
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
    text = str(training.parsed.values.get(name, spec.default if spec is not None and not training.open else ""))
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


_Flags = dict[str, tuple[str, int]]


def _is_on(given: _Flags) -> bool:
    return given.get("use_peft", ("no", 0))[0].lower() in _TRUE or "lora_r" in given


def _number(given: _Flags, name: str, otherwise: int | None) -> int | None:
    if name not in given:
        return otherwise
    text = given[name][0]
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def _hidden(text: str) -> bool:
    return "$" in text or HIDDEN in text


def _flags(argv: tuple[str, ...]) -> _Flags:
    """Return the flags of a program by name with _ for -: their value, "" for none, and their place."""
    return {name: (value, index) for name, value, index in _read(argv)}


def _read(argv: tuple[str, ...]) -> Iterator[tuple[str, str, int]]:
    for index, word in enumerate(argv):
        if not word.startswith("--"):
            continue
        name, equals, value = word[2:].partition("=")
        following = argv[index + 1] if index + 1 < len(argv) else "--"
        yield name.replace("-", "_"), value if equals else "" if following.startswith("--") else following, index
