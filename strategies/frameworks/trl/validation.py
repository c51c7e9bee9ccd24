"""Validation of a training script's own arguments, before a pod with GPUs starts and fails.

Every message is about what TRL 1.16 does with these arguments; the flags come from its own parsers (`flags`). A value
that Muster cannot see (`$(NAME)`, a `--config` file) is never checked, nor is a flag that could be in such a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from muster.strategies.documents import pods
from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.frameworks.trl import batches, choices, conflicts, flags, parsing, settings, sharding
from muster.strategies.frameworks.trl.arguments import Arguments
from muster.strategies.frameworks.trl.invocations import Form, Invocation
from muster.strategies.launches.sites import Site
from muster.strategies.launches.topologies import Topology

__all__ = ["Circumstances", "check", "check_within", "place"]

_GUESSES = 6
"""Unknown flags for which a known one is suggested: each costs half a millisecond, and a JobSet may have thousands."""
_TOLD = 100
"""Unknown flags of one command line that are told one by one."""
_LORA_PREFIX = "lora_"
_LORA_SWITCHES = frozenset({"use_dora", "use_rslora"})
_ON_DEVICES = frozenset({"nccl", "xccl", "hccl", "cncl", "mccl"})
_BY_VERSION = frozenset(
    {"trl/unknown-flag", "trl/arguments", "trl/required", "trl/generations", "trl/vllm-size", "trl/contradiction"}
    | {"trl/word", "trl/vllm-cpu"}
)
"""Rules that hold for the version of TRL from which the flags were read, but perhaps not for another."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What the checks know beside the arguments.

    Attributes:
        topology: topology of the job, with torchrun's own flags applied.
        ranks: returns the number of processes of the training, None when it is not known.
        own_image: whether the image is the user's, with an unknown version of TRL.
        alone: whether no other container of the pod could hold a server.
    """

    topology: Topology
    ranks: Callable[[], int | None] = lambda: None
    own_image: bool = False
    alone: bool = True


def check(found: Invocation, parsed: parsing.ParsedArgs, site: Site, around: Circumstances) -> Iterator[Finding]:
    """Yield the findings about the arguments of one invocation, which are the last words of the command line."""
    yield from _judged(found, parsed, around, _Where(found, site))


def place(found: Invocation, parsed: parsing.ParsedArgs, site: Site, name: str) -> str:
    """Return the field path of a flag of an invocation whose arguments are the last words of the command line."""
    return _Where(found, site).flag(parsed, name)


def check_within(found: Invocation, site: Site, around: Circumstances) -> Iterator[Finding]:
    """Yield the findings about an invocation that was read in a shell's text or behind wrappers.

    A word with a `$` is known only in the pod, in whatever notation a shell has for it.
    """
    args = tuple(word if "$(" in word else word.replace("$", "$(?)") for word in found.args)
    where = _Where(found, site) if site.argv[len(site.argv) - len(args) :] == found.args else _Within(found, site)
    around = replace(around, own_image=around.own_image or not found.installed)
    found = replace(found, args=args)
    parsed = parsing.parse(found.method, args)
    if site.argv[: len(found.head)] != found.head:
        yield from conflicts.check_within(found, parsed, site)
    yield from _judged(found, parsed, around, where)


def _judged(found: Invocation, parsed: parsing.ParsedArgs, around: Circumstances, where: _Where) -> Iterator[Finding]:
    for finding in _check(found, parsed, around, where):
        doubtful = around.own_image and finding.rule in _BY_VERSION
        yield replace(finding, severity=Severity.WARNING) if doubtful else finding


def _check(found: Invocation, parsed: parsing.ParsedArgs, around: Circumstances, where: _Where) -> Iterator[Finding]:
    yield from _unreadable(found, parsed, where)
    yield from _misplaced(found, parsed, where)
    yield from _precision(parsed, where)
    yield from _quantisation(parsed, where)
    yield from _adapters(parsed, where)
    if around.alone:
        yield from _vllm(found, parsed, around.topology, where)
    yield from _backend(parsed, around.topology, where)
    yield from batches.check(found.method, parsed, around.ranks, lambda name: where.flag(parsed, name))
    given = Arguments(found.method, parsed)
    yield from settings.check(given, lambda name: where.flag(parsed, name))
    yield from sharding.check(given, around.ranks, lambda name: where.flag(parsed, name))
    if not found.is_program:
        yield from choices.check(given, lambda name: where.flag(parsed, name))
    yield from _offline(parsed, where)
    yield from _alone(found, parsed, around, where)
    if parsed.config_file is None and not parsed.opaque:
        yield from _required(found, parsed, where)


def _offline(parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    """Refuse to push where nothing is sent to the hub (huggingface_hub 2.4 `utils/_http.py` OfflineModeIsEnabled)."""
    if parsed.values.get("push_to_hub") is not True:
        return
    env = where.env
    name = next((each for each in _OFFLINE if (env.get(each) or "").upper() in _YES), None)
    if name is not None:
        message = f"{name} is set, with which nothing can be sent, and TRL stops at its start; remove one of the two"
        yield error(where.flag(parsed, "push_to_hub"), "--push_to_hub", message, rule="trl/contradiction")


_OFFLINE, _YES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), frozenset({"1", "ON", "YES", "TRUE"})


def _alone(found: Invocation, parsed: parsing.ParsedArgs, around: Circumstances, where: _Where) -> Iterator[Finding]:
    """Refuse FSDP in a process that no launcher of several has started (transformers `trainer.py`)."""
    if parsed.values.get("fsdp") in (None, False, ""):
        return
    plain = found.form is Form.MODULE or (found.form is Form.TRL and not parsed.launcher)
    if plain and not parsed.config_file and "LOCAL_RANK" not in where.env and around.ranks() == 1:
        message = "needs a launcher, also for one process, and TRL stops at its start; use torchrun, or remove it"
        yield error(where.flag(parsed, "fsdp"), "--fsdp", message, rule="trl/contradiction")


class _Where:
    """Field paths of arguments, which are always the last words of the site's command line."""

    def __init__(self, found: Invocation, site: Site) -> None:
        self._site = site
        self._offset = len(site.argv) - len(found.args)

    @property
    def env(self) -> dict[str, str | None]:
        """Variables of the container and their values, None for one from elsewhere."""
        return {str(entry.get("name")): pods.env_value([entry], str(entry.get("name"))) for entry in self._site.env}

    def token(self, index: int) -> str:
        return self._site.locate(self._offset + index)

    def flag(self, parsed: parsing.ParsedArgs, name: str) -> str:
        index = parsed.places.get(name)
        return f"{self._site.place}.args" if index is None else self.token(index)


class _Within(_Where):
    """Field paths of arguments inside a text: the word that holds the text, else the command."""

    def __init__(self, found: Invocation, site: Site) -> None:
        super().__init__(found, site)
        self._args = found.args

    def token(self, index: int) -> str:
        holding = (place for place, word in enumerate(self._site.argv) if self._args[index] in word)
        return self._site.locate(next(holding, 0))

    def flag(self, parsed: parsing.ParsedArgs, name: str) -> str:
        index = parsed.places.get(name)
        if index is not None:
            return self.token(index)
        return f"{self._site.place}.{'command' if self._site.command else 'args'}"


def _unreadable(found: Invocation, parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    for number, (index, token) in enumerate(parsed.unknown[:_TOLD]):
        if token == parsing.CONFIG:
            continue  # the second; `conflicts` tells of both
        meant = flags.closest(found.method, token) if number < _GUESSES else None
        hint = f"; did you mean {meant}?" if meant else "; remove it"
        message = f"is not a flag of {found.called} (trl {flags.version()}){hint}"
        yield error(where.token(index), token, message, rule="trl/unknown-flag")
    for index, token in parsed.unknown[_TOLD : _TOLD + 1]:
        others = len(parsed.unknown) - _TOLD
        message = f"is the first of {others} more words that are not flags of {found.called}; remove them"
        yield replace(error(where.token(index), token, message, rule="trl/unknown-flag"), stands_for=others)
    for fault in parsed.faults:
        message = f"{found.called} would not start: this argument {fault.reason}"
        yield error(where.token(fault.index), fault.token, message, rule="trl/arguments")
    for index, token in parsed.positionals:
        message = f"does not belong to a flag, and {found.called} takes no other arguments; remove it"
        if token.startswith("-") and " " in token:
            message = "reaches the program as one word; write each flag and each value as a list entry of its own"
        yield error(where.token(index), token, message, rule="trl/arguments")


def _misplaced(found: Invocation, parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    if found.form in (Form.TORCHRUN, Form.MODULE, Form.ACCELERATE):
        for index, token in parsed.launcher:
            message = "is a flag of accelerate launch, and the training script does not know it; remove it"
            yield error(where.token(index), token, message, rule="trl/launcher-flag")


def _precision(parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    if parsed.values.get("bf16") is True and parsed.values.get("fp16") is True:
        message = "bf16 and fp16 cannot both be on; choose one"
        yield error(where.flag(parsed, "fp16"), "--fp16", message, rule="trl/precision")


def _quantisation(parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    if parsed.values.get("load_in_4bit") is True and parsed.values.get("load_in_8bit") is True:
        message = "the model can be loaded in 4 or in 8 bit, not in both; choose one"
        yield error(where.flag(parsed, "load_in_8bit"), "--load_in_8bit", message, rule="trl/quantisation")


def _adapters(parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    lora = [name for name in parsed.values if name.startswith(_LORA_PREFIX)]
    lora += [name for name in _LORA_SWITCHES if parsed.values.get(name) is True]
    if not lora or parsed.values.get("use_peft") is True or "use_peft" in _unseen(parsed):
        return
    if parsed.values.get("use_peft") is False or (parsed.config_file is None and not parsed.opaque):
        message = "has no effect without --use_peft: the full model would be trained; add --use_peft, or remove it"
        yield error(where.flag(parsed, lora[0]), f"--{lora[0]}", message, rule="trl/peft")


def _unseen(parsed: parsing.ParsedArgs) -> set[str]:
    return {name for name, value in parsed.values.items() if isinstance(value, str) and "$(" in value}


def _vllm(found: Invocation, parsed: parsing.ParsedArgs, topology: Topology, where: _Where) -> Iterator[Finding]:
    mode = flags.spec(found.method, "--vllm_mode")
    hidden = parsed.config_file is not None or parsed.opaque
    if mode is None or parsed.values.get("use_vllm") is not True or hidden:
        return
    chosen = parsed.values.get("vllm_mode", mode.default)
    if chosen == "colocate" and topology.on_cpu and parsed.values.get("use_cpu") is True:
        message = (
            "vLLM on CPUs takes no weights from a trainer in its own process, and TRL ends at the first that it sends; "
            "give it a sampler (docs/grpo.md), or remove --use_vllm"
        )
        yield error(where.flag(parsed, "use_vllm"), "--use_vllm", message, rule="trl/vllm-cpu")
    if chosen == "server" and not {"vllm_server_base_url", "vllm_server_host"} & set(parsed.values):
        message = (
            "server mode needs a vLLM server, and rank 0 would look for one in its own pod and give up after minutes; "
            "set --vllm_server_base_url, or --vllm_mode colocate"
        )
        yield error(where.flag(parsed, "vllm_mode"), "--vllm_mode server", message, rule="trl/vllm-server")


def _backend(parsed: parsing.ParsedArgs, topology: Topology, where: _Where) -> Iterator[Finding]:
    backend = parsed.values.get("ddp_backend")
    if not topology.on_cpu or not topology.is_distributed:
        return
    if backend in _ON_DEVICES:
        message = f"the job asks for no GPU, and {backend} cannot connect processes on CPU; use gloo, or remove it"
        yield error(where.flag(parsed, "ddp_backend"), f"--ddp_backend {backend}", message, rule="trl/backend")
    if "use_cpu" not in parsed.values and parsed.config_file is None and not parsed.opaque:
        message = (
            "the job asks for no GPU, and without --use_cpu the ranks meet but do not share gradients; "
            "set --use_cpu (and --bf16 false) if the job is meant for CPU, or ask for GPUs"
        )
        yield warning(where.flag(parsed, "use_cpu"), None, message, rule="trl/cpu")


def _required(found: Invocation, parsed: parsing.ParsedArgs, where: _Where) -> Iterator[Finding]:
    needed = ["model_name_or_path", "dataset_name"]
    if "datasets" in parsed.values:
        needed.remove("dataset_name")
    if found.method == "distillation":
        needed.append("teacher_model_name_or_path")
    if found.is_program:
        needed.append("reward_funcs")
    for name in needed:
        if name not in parsed.values:
            message = f"--{name} is missing, and TRL stops at its start without it; add it"
            yield error(where.flag(parsed, name), None, message, rule="trl/required")
    if found.method == "grpo" and not found.is_program and _REWARDS.isdisjoint(parsed.values):
        message = "a reward is missing, and TRL stops without one; add --reward_funcs or --reward_model_name_or_path"
        yield error(where.flag(parsed, "reward_funcs"), None, message, rule="trl/required")


_REWARDS = frozenset({"reward_funcs", "reward_model_name_or_path"})
