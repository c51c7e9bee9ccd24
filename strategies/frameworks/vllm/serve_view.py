"""The settings of one server, and facts about it, as the rows of `strategies/upstream/vllm` name them.

Settings are flags without their dashes, members of JSON are `kv-transfer-config.kv_role`, variables `env.NAME`. A value
is as vLLM's parser types it. A flag or variable with a part that only the pod knows is `UNKNOWN`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from msgspec import Struct

from muster.strategies.frameworks.authors import Authors
from muster.strategies.frameworks.vllm import gpu_shares, model_shapes, serve_arguments, vllm_flags
from muster.strategies.frameworks.vllm.vllm_servers import Server
from muster.strategies.launches import topologies
from muster.strategies.launches.capabilities import Generation
from muster.strategies.launches.sites import Site
from muster.strategies.rules import UNKNOWN, Value, member

__all__ = ["Circumstances", "ServeView"]

_UNLIMITED = 2**40
_LONGEST = 40  # characters of a number
_CHANGING = frozenset({"hf-overrides", "hf-config-path", "rope-scaling", "rope-theta", "config-format", "model-impl"})
"""Flags that change the configuration of a model, or where it is read."""


class Circumstances(Struct, frozen=True):
    """What the checks know beside the flags.

    Attributes:
        gpus: GPUs of the container, None when unknown, 0 on CPU.
        others: whether the container sees GPUs that it did not ask for.
        maker: domain of their maker.
        own_image: whether the image is the user's, with an unknown version of vLLM.
        initialized: whether a model initializer puts a model where Muster points the server to.
        alone: whether this is the only launch of the container, and runs for certain.
        authors: who wrote which argument of a bare launch, None for one inside a wrapper.
        generation: the bound of the GPUs of its nodes, None where no label of them says one.
        pods: how many pods start the same, 0 where that is not judged.
        memory: memory limit of the container in GiB, None for none, or where that is not judged.
        shared_memory: GiB that fit into /dev/shm, None where they are not known.
    """

    gpus: int | None = None
    others: bool = False
    maker: str = ""
    own_image: bool = False
    initialized: bool = False
    alone: bool = True
    authors: Authors | None = None
    generation: Generation | None = None
    pods: int = 0
    memory: float | None = None
    shared_memory: float | None = None


class ServeView(Struct):
    """One server at one place.

    Attributes:
        server: the server.
        site: its command line.
        around: its circumstances.
    """

    server: Server
    site: Site
    around: Circumstances
    _begin: int = 0
    _bare: bool = False

    def __post_init__(self) -> None:
        """Find where the server's own words begin: for a bare launch, they are the last words of its command line."""
        count, argv = len(self.server.args), self.site.argv
        self._bare, self._begin = count == 0 or argv[-count:] == self.server.args, len(argv) - count

    # --- where a finding stands ---------------------------------------------------------------------------------------

    @property
    def args(self) -> str:
        """Field path of the arguments."""
        return f"{self.site.place}.args" if self._bare or self.site.args else f"{self.site.place}.command"

    def token(self, index: int) -> str:
        """Return the field path of an argument; of all of them where the launch is inside a wrapper."""
        return self.site.locate(self._begin + index) if self._bare else self.args

    def variable(self, name: str) -> str:
        """Return the field path of a variable."""
        return f"{self.site.place}.env[{name}]" if name in self.site.values else self.args

    def field(self, name: str) -> str:
        """Return the field path of a flag, or of the arguments where it is missing."""
        index = self.server.parsed.places.get(name.partition(".")[0])
        return self.args if index is None else self.token(index)

    def shown(self, name: str, value: Value) -> object:
        """Return a flag as it is written, or what a fact comes to."""
        name, text = name.partition(".")[0], self.server.text(name.partition(".")[0])
        if text is not None:
            return f"--{name} {serve_arguments.shortened(text)}".strip()
        return f"--no-{name}" if name in self.server.parsed.off else None if isinstance(value, str) else value

    @property
    def written(self) -> Collection[str]:
        """The flags that are written, and the members of those that hold JSON."""
        parsed = self.server.parsed
        names = [*parsed.values, *parsed.off]
        for name in names[:]:
            found = self.value(name)
            names += [f"{name}.{each}" for each in found] if isinstance(found, dict) else []
        return names

    def value(self, name: str) -> Value:
        """Return the value of a flag or of a member of its JSON, of a variable or of a fact."""
        if name in _FACTS:
            return _FACTS[name](self)
        if name.startswith("env."):
            env, name = self.server.env, name.removeprefix("env.")
            found = env.get(name, "")
            return None if name not in env else UNKNOWN if found is None or "$" in found else found
        flag, dot, rest = name.partition(".")
        return member(self._flag(flag), rest) if dot else self._flag(flag)

    def _flag(self, name: str) -> Value:
        found, text = vllm_flags.spec(f"--{name}"), self.server.text(name)
        if text is None or found is None:
            return False if name in self.server.parsed.off else found.default if found else None
        if serve_arguments.hidden(text) or name in self.server.parsed.dotted:
            return UNKNOWN
        try:
            if found.nargs in ("+", "*") and found.kind.startswith("int"):
                return [serve_arguments.convert(found.kind, each) for each in text.split()]
            value = True if found.nargs == 0 else serve_arguments.convert(found.kind, text)
        except ValueError:
            return UNKNOWN
        unread = isinstance(value, str) and found.kind.startswith("json")
        return UNKNOWN if unread or (isinstance(value, int) and len(text) > _LONGEST) else value


def _known(found: float | bool | None) -> Value:
    return UNKNOWN if found is None else found


def _shape(view: ServeView) -> model_shapes.Shape:
    return model_shapes.find(view.server.model or "")


def _configured(view: ServeView) -> model_shapes.Shape:
    """Return what is known of the model, nothing where flags may change its configuration."""
    values = view.server.parsed.values
    changed = _CHANGING & values.keys() or any(name.startswith("hf-overrides.") for name in values)
    return model_shapes.find("") if changed else _shape(view)


def _visible(view: ServeView) -> int:
    around = view.around
    seen = topologies.visible(around.gpus, view.server.env, others=around.others, maker=around.maker)
    return _UNLIMITED if seen is None else seen


def _gpus_shown(view: ServeView) -> str:
    count, seen = view.around.gpus, _visible(view)
    if seen in (count, _UNLIMITED):
        return f"the pod has {count}"
    return f"{topologies.hiding(view.around.maker)} leaves {seen} of {count}"


def _remedy(view: ServeView) -> str:
    """Say what would use all GPUs of the pod, of which some may be hidden from the server."""
    count, seen = view.around.gpus or 0, _visible(view)
    if seen < count or seen == _UNLIMITED:
        return f"remove {topologies.hiding(view.around.maker)}, which hides the others, or ask for fewer"
    because = f", because {_heads_shown(view)}" if _shape(view).allows(count) is False else ""
    return f"{gpu_shares.advise(view.server, count)}{because}"


def _heads_shown(view: ServeView) -> str:
    found = _shape(view)
    name = serve_arguments.shortened(found.name)
    return f"{name} has {found.query} attention heads and {found.key_value} key-value heads"


def _of_heads(view: ServeView, rank: bool) -> Value:
    """Return how many ranks, or how many attention heads, there are for each key-value head."""
    found, size = _configured(view), view.server.number("tensor-parallel-size")
    if not found.query or size is None:
        return UNKNOWN
    return size // found.key_value if rank else found.query // found.key_value


def _capability(view: ServeView) -> Value:
    found = view.around.generation
    return UNKNOWN if found is None else found.capability[0] + found.capability[1] / 10


def _memory(view: ServeView) -> float:
    return _UNLIMITED if view.around.memory is None else view.around.memory


def _memory_of_gpu(view: ServeView) -> Value:
    used = gpu_shares.used(view.server)
    return _memory(view) / used if used else UNKNOWN


_FACTS: Mapping[str, Callable[[ServeView], Value]] = {
    "advice": lambda view: gpu_shares.advise(view.server, view.around.gpus) if view.around.gpus else "lower it",
    "alone": lambda view: view.around.alone,
    "api_servers": lambda view: _known(view.server.api_servers),
    "capability": _capability,
    "context": lambda view: _configured(view).context,
    "cuda": lambda view: view.around.maker == "nvidia.com",
    "dense": lambda view: _configured(view).is_dense,
    "foreign": lambda view: view.around.own_image,
    "form": lambda view: view.server.form.value,
    "gpus": lambda view: view.around.gpus,
    "gpus_shown": _gpus_shown,
    "head": lambda view: view.value("data-parallel-address") or view.value("master-addr"),
    "heads_fit": lambda view: _known(_shape(view).allows(view.server.number("tensor-parallel-size") or 1)),
    "heads_shown": _heads_shown,
    "idle": lambda view: (view.around.gpus or 0) - (gpu_shares.used(view.server) or 0),
    "kv_heads": lambda view: _configured(view).key_value or UNKNOWN,
    "kv_queries": lambda view: _of_heads(view, rank=False),
    "kv_ranks": lambda view: _of_heads(view, rank=True),
    "latent": lambda view: _configured(view).is_latent,
    "memory": _memory,
    "memory_of_gpu": _memory_of_gpu,
    "model": lambda view: view.server.model,
    "nodes": lambda view: view.around.generation.told if view.around.generation else None,
    "pods": lambda view: view.around.pods,
    "remedy": _remedy,
    "replicas_elsewhere": lambda view: gpu_shares.has_replicas_elsewhere(view.server),
    "rust_frontend": lambda view: view.server.is_set("VLLM_USE_RUST_FRONTEND"),
    "shared_memory": lambda view: _known(view.around.shared_memory),
    "used": lambda view: _known(gpu_shares.used(view.server)),
    "version": lambda _: vllm_flags.version(),
    "visible": _visible,
    "world": lambda view: _known(gpu_shares.world(view.server)),
}
"""Facts that rows may ask for."""
