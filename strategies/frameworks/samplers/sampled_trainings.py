"""Trainings: how the training beside a sampler generates, as far as its command line says it.

TRL `trl/trainer/grpo_config.py`, `rloo_config.py` and `experimental/gold`: `use_vllm` is off by default, and
`vllm_mode` is `colocate`, with which the trainer starts an engine on its own GPUs. Only mode `server` asks a sampler.
A program of the user's own reads whatever flags it likes, so that nothing is known of it.
"""

from __future__ import annotations

from msgspec import Struct

from muster.strategies.frameworks.trl import flags, invocations
from muster.strategies.frameworks.trl.invocations import Invocation
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites
from muster.strategies.launches.expansions import resolve_own
from muster.strategies.launches.sites import Site

__all__ = ["HIDDEN", "Training", "read"]

HIDDEN = "$("
_URLS = ("vllm_server_base_url", "vllm_server_host")
_COMPUTED = {"bf16": "bfloat16", "fp16": "float16"}


class Training(Struct, frozen=True):
    """The training of a job.

    Attributes:
        site: its command line.
        found: how TRL is started, None for a program that is not TRL's own.
        parsed: the arguments of TRL's script; empty for another program.
        extends: whether words at the end of the arguments reach the script.
        certain: whether the launch runs for certain, and once.
    """

    site: Site
    found: Invocation | None
    parsed: flags.ParsedArgs
    extends: bool = False
    certain: bool = True

    @property
    def open(self) -> bool:
        """Whether more flags may hold that admission cannot see: a `--config` file, or `$(EXTRA)`."""
        return self.parsed.config_file is not None or bool(self.parsed.opaque)

    @property
    def is_able(self) -> bool:
        """Whether its method can ask a server at all."""
        return self.found is not None and flags.spec(self.found.method, "--vllm_server_base_url") is not None

    @property
    def always_asks(self) -> bool:
        """Whether its method generates by a server and by nothing else, as TRL's AsyncGRPOTrainer does."""
        return self.is_able and self.found is not None and flags.spec(self.found.method, "--vllm_mode") is None

    @property
    def asks(self) -> bool | None:
        """Whether it generates with vLLM; None where that cannot be seen."""
        if self.found is None:
            return None
        if not self.is_able:
            return False
        if self.always_asks:
            return True
        given = self.parsed.values.get("use_vllm", None if self.open else False)
        return given if isinstance(given, bool) else None

    @property
    def mode(self) -> str | None:
        """`server`, `colocate`, "" where the flag is missing; None where it cannot be seen."""
        if self.always_asks:
            return "server"
        given = self.text("vllm_mode")
        return given if given is not None or self.open or "vllm_mode" in self.parsed.values else ""

    @property
    def asks_server(self) -> bool:
        """Whether it certainly asks a server, or will once Muster has written the mode."""
        return self.asks is True and self.mode in ("", "server")

    @property
    def is_addressed(self) -> bool:
        """Whether it names a server itself."""
        return any(name in self.parsed.values for name in _URLS)

    @property
    def foreign(self) -> int:
        """How many words at the end of the arguments are of accelerate; TRL's own strategy keeps them there."""
        if self.found is None:
            return 0
        own = [index for index in range(len(self.found.args)) if index not in self.parsed.launcher_tokens]
        return len(self.found.args) - (own[-1] + 1 if own else 0)

    def text(self, name: str) -> str | None:
        """Return the value of a flag, None where it is missing or known only in the pod."""
        given = self.parsed.values.get(name)
        return given if isinstance(given, str) and HIDDEN not in given else None

    def field(self, name: str) -> str:
        """Return the field path of a flag, else that of the arguments."""
        index = self.parsed.places.get(name)
        if index is not None and self.extends and self.found is not None:
            return self.site.locate(len(self.site.argv) - len(self.found.args) + index)
        return f"{self.site.place}.{'args' if self.extends or not self.site.command else 'command'}"

    @property
    def dtype(self) -> str | None:
        """The type in which it computes, None where that cannot be seen.

        TRL trains in mixed precision of bfloat16 unless told otherwise (`trl/trainer/base_config.py` __post_init__).
        """
        if self.found is None or self.open:
            return None
        given = {name: self.parsed.values.get(name) for name in _COMPUTED}
        if any(isinstance(value, str) for value in given.values()):
            return None
        chosen = next((dtype for name, dtype in _COMPUTED.items() if given[name] is True), None)
        if chosen or given["bf16"] is None:
            return chosen or "bfloat16"
        written = self.parsed.values.get("dtype", "float32")
        return str(written) if written in ("float32", "float16", "bfloat16") else None


def read(job: Job) -> Training | None:
    """Return the training of a job; None where it has no training container."""
    site = sites.find_site(job)
    if site is None:
        return None
    found = invocations.read(site, job)
    if found is not None:
        return _training(site, found, certain=True)
    for launch in site.reading.launches:
        inside = invocations.within(launch)
        if inside is not None:
            return _training(site, inside, certain=launch.certain)
    return Training(site, None, flags.ParsedArgs())


def _training(site: Site, found: Invocation, *, certain: bool) -> Training:
    """Read the arguments; a word with a `$` is known only in the pod, in whatever notation a shell has for it."""
    last = site.argv[len(site.argv) - len(found.args) :] == found.args
    bare = last and (found.head == () or site.argv[: len(found.head)] == found.head or bool(found.prefix))
    named = bare and any("$" in word for word in found.args)
    words = tuple(resolve_own(word, site.values if named else {}) if bare else _unseen(word) for word in found.args)
    return Training(site, found, flags.parse(found.method, words), bare and "--" not in found.args, certain)


def _unseen(word: str) -> str:
    return word if HIDDEN in word else word.replace("$", "$(?)")
