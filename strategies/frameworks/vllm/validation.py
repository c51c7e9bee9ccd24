"""Validation of a server's own flags, before a pod with GPUs starts and fails.

Every message is about what vLLM does with these flags; the flags come from its own parser (`flags`). A value that
Muster cannot see (`$(NAME)`, a `--config` file) is never checked, nor is a flag that could be in such a file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from muster.strategies.documents.findings import Finding, Severity, beginning, error, note, warning
from muster.strategies.frameworks.vllm import (
    contradictions,
    exclusions,
    flags,
    heads,
    members,
    models,
    parsing,
    ranges,
    sizes,
    words,
)
from muster.strategies.frameworks.vllm.authors import Authors
from muster.strategies.frameworks.vllm.servers import Form, Server
from muster.strategies.launches import topologies
from muster.strategies.launches.sites import Site
from muster.strategies.platform.generations import Generation

__all__ = ["Circumstances", "check", "place"]

_GUESSES = 6
"""Unknown flags for which a known one is suggested: each costs half a millisecond, and a JobSet may have thousands."""
_TOLD = 100
"""Unknown flags of one command line that are told one by one."""
_BY_VERSION = frozenset({"vllm/arguments", "vllm/generation"})
"""Rules that hold for the version of vLLM from which the flags were read, but perhaps not for another."""
_SHOWN = 40
_HIGHEST_PORT = 65_535
_FILES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True)
class Circumstances:
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
    """

    gpus: int | None = None
    others: bool = False
    maker: str = ""
    own_image: bool = False
    initialized: bool = False
    alone: bool = True
    authors: Authors | None = None
    generation: Generation | None = None


def check(server: Server, site: Site, around: Circumstances) -> Iterator[Finding]:
    """Yield the findings about one server."""
    for finding in _check(server, site, around):
        doubtful = not around.alone or (around.own_image and finding.rule in _BY_VERSION)
        lower = doubtful and finding.severity is Severity.ERROR
        yield replace(finding, severity=Severity.WARNING) if lower else finding


def place(server: Server, site: Site, flag: str) -> str:
    """Return the field path of a flag of a server, or of its arguments where it is missing."""
    return _Where(server, site).flag(flag)


def _check(server: Server, site: Site, around: Circumstances) -> Iterator[Finding]:
    where = _Where(server, site)
    if server.form is not Form.GRPC:
        yield from _unknown(server, where, around)
        yield from _unreadable(server, where)
        yield from _file(server, where)
    yield from _repeated(server, where, around)
    for flag, message in itertools.chain(contradictions.find(server), exclusions.find(server)):
        yield error(where.flag(flag), f"--{flag}", message, rule="vllm/contradiction")
    for flag, message in exclusions.recent(server):
        find = warning if around.own_image else error
        yield find(where.flag(flag), f"--{flag}", message, rule="vllm/contradiction")
    for flag, message in members.find(server, foreign=around.own_image):
        find = warning if around.own_image else error
        yield find(where.flag(flag), f"--{flag}", message, rule="vllm/value")
    for flag, value, message in ranges.find(server):
        find = warning if around.own_image and flag not in ranges.ALWAYS else error
        yield find(where.flag(flag), value, message, rule="vllm/value")
    for flag, message in words.find(server, foreign=around.own_image):
        yield warning(where.flag(flag), beginning(server.text(flag) or "", _SHOWN), message, rule="vllm/value")
    for name, value, message in words.find_env(server):
        yield warning(where.variable(name), beginning(value, _SHOWN), message, rule="vllm/value")
    if around.generation is not None and around.gpus:
        yield from _old(server, where, around.generation)
    yield from _model(server, where, around)
    yield from _sizes(server, where, around)


class _Where:
    """Field paths of words: exact for a bare launch, whose arguments are the last words of its command line."""

    def __init__(self, server: Server, site: Site) -> None:
        self._server, self._site = server, site
        count, argv = len(server.args), site.argv
        self._bare, self._begin = count == 0 or argv[-count:] == server.args, len(argv) - count

    @property
    def args(self) -> str:
        return f"{self._site.place}.args" if self._bare or self._site.args else f"{self._site.place}.command"

    def token(self, index: int) -> str:
        return self._site.locate(self._begin + index) if self._bare else self.args

    def variable(self, name: str) -> str:
        own = any(entry.get("name") == name for entry in self._site.env)
        return f"{self._site.place}.env[{name}]" if own else self.args

    def flag(self, name: str) -> str:
        index = self._server.parsed.places.get(name)
        return self.args if index is None else self.token(index)


def _unknown(server: Server, where: _Where, around: Circumstances) -> Iterator[Finding]:
    for number, (index, token) in enumerate(server.parsed.unknown[:_TOLD]):
        name = token.partition("=")[0].replace("_", "-")
        versions = flags.elsewhere(name)
        if versions:
            message = f"is a flag of vLLM {versions[0]} to {versions[-1]}, and vLLM {flags.version()} does not have it"
            find = note if around.own_image else error
            yield find(where.token(index), beginning(token, _SHOWN), message, rule="vllm/unknown-flag")
            continue
        meant, sure = (flags.closest(name) if number < _GUESSES else None) or (None, False)
        hint = f"; did you mean {meant}?" if meant else "; remove it"
        message = f"is not a flag of vllm serve (vLLM {flags.version()}){hint}"
        find = warning if around.own_image and not sure else error
        yield find(where.token(index), beginning(token, _SHOWN), message, rule="vllm/unknown-flag")
    for index, token in server.parsed.unknown[_TOLD : _TOLD + 1]:
        others = len(server.parsed.unknown) - _TOLD
        message = f"is the first of {others} more words that are not flags of vllm serve; remove them"
        find = warning if around.own_image else error
        yield replace(
            find(where.token(index), beginning(token, _SHOWN), message, rule="vllm/unknown-flag"), stands_for=others
        )


def _unreadable(server: Server, where: _Where) -> Iterator[Finding]:
    for fault in server.parsed.faults:
        message = f"vLLM would not start: this argument {fault.reason}"
        yield error(where.token(fault.index), fault.token, message, rule="vllm/arguments")
    yield from _strays(server, where)
    port = server.text("port") or ""
    if port.isdecimal() and (len(port) > len(str(_HIGHEST_PORT)) or int(port) > _HIGHEST_PORT):
        message = f"is not a port; use one up to {_HIGHEST_PORT}"
        yield error(where.flag("port"), beginning(port, _SHOWN), message, rule="vllm/arguments")


def _strays(server: Server, where: _Where) -> Iterator[Finding]:
    words = server.parsed.positionals
    if any(parsing.hidden(word) for _, word in words):
        return
    taken = 0 if server.form is Form.SERVE and server.on("model") else 1
    for index, word in words[taken:]:
        message = "does not belong to a flag, and vllm serve takes one model; remove it, or write its flag before it"
        if word.startswith("-") and " " in word:
            message = "reaches the program as one word; write each flag and each value as a list entry of its own"
        yield error(where.token(index), beginning(word, _SHOWN), message, rule="vllm/arguments")


def _file(server: Server, where: _Where) -> Iterator[Finding]:
    index = server.parsed.config
    if server.on("config") and index is None:
        message = "vLLM reads a file only where --config and its name are two words, and ignores this one; divide it"
        yield warning(
            where.flag("config"),
            beginning(f"--config={server.text('config')}", _SHOWN),
            message,
            rule="vllm/config-file",
        )
    name = server.args[index + 1] if index is not None and index + 1 < len(server.args) else ""
    if name and not parsing.hidden(name) and not name.endswith(_FILES):
        message = "vLLM would not start: it reads only files whose names end in .yaml or .yml; rename it"
        yield error(where.token((index or 0) + 1), beginning(name, _SHOWN), message, rule="vllm/config-file")


def _repeated(server: Server, where: _Where, around: Circumstances) -> Iterator[Finding]:
    for name, every in server.parsed.given.items():
        judged = around.authors.judged(every) if around.authors else every
        if not parsing.differ(judged):
            continue
        shown = " and ".join(_shown(value) for value in dict.fromkeys(given.value for given in judged))
        message = f"is given several times with different values, and vLLM takes the last of {shown}; keep one"
        yield error(where.flag(name), f"--{name}", message, rule="vllm/repeated-flag")


def _shown(value: str) -> str:
    return {"": "on", "no": "off"}.get(value, beginning(value, _SHOWN))


def _old(server: Server, where: _Where, found: Generation) -> Iterator[Finding]:
    """Compare types of numbers with the GPUs (`platforms/cuda.py` check_if_supports_dtype, get_min_capability)."""
    if server.open:
        return
    for flag in _LEAST:
        value = server.text(flag) or ""
        least = _LEAST[flag].get(value)
        if least is not None and found.capability < least:
            message = (
                f"vLLM would not start: it needs a capability of {least[0]}.{least[1]}, and the nodes of {found.told} "
                f"have {found.number} at most; use another one"
            )
            yield error(where.flag(flag), value, message, rule="vllm/generation")


_LEAST: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "dtype": {"bfloat16": (8, 0)},
    "quantization": {
        **dict.fromkeys(("gptq", "auto_gptq"), (6, 0)),
        **dict.fromkeys(("compressed-tensors", "moe_wna16"), (7, 0)),
        **dict.fromkeys(("fp8", "awq", "auto_awq", "awq_marlin", "humming", "torchao", "modelopt_fp4"), (7, 5)),
        **dict.fromkeys(("experts_int8", "fbgemm_fp8", "mxfp4", "gpt_oss_mxfp4"), (8, 0)),
        **dict.fromkeys(("modelopt", "modelopt_mxfp8"), (8, 0)),
        "fp_quant": (10, 0),
    },
}


def _model(server: Server, where: _Where, around: Circumstances) -> Iterator[Finding]:
    if (server.model or "").startswith(("'", '"')):
        message = "begins with a quote, which no shell takes away here, so no such model is found; remove the quotes"
        yield warning(where.args, beginning(server.model or "", _SHOWN), message, rule="vllm/model")
    if server.model is not None or server.open:
        return
    words = server.parsed.positionals
    if server.form is Form.MODULE and words:
        index, word = words[0]
        message = (
            "the module reads its model from --model alone, and would serve its default one; write --model before it"
        )
        yield error(where.token(index), beginning(word, _SHOWN), message, rule="vllm/model")
    elif not around.initialized:
        message = "the job names no model, so vLLM would serve its default one; write the model as the first argument"
        yield warning(where.args, None, message, rule="vllm/model")


def _sizes(server: Server, where: _Where, around: Circumstances) -> Iterator[Finding]:
    count, wanted = around.gpus, sizes.used(server)
    yield from _heads(server, where, around)
    yield from _known_model(server, where)
    if not count or wanted is None or not sizes.replica(server):
        return
    seen = topologies.visible(count, server.env, others=around.others, maker=around.maker)
    if seen is not None and wanted > seen:
        has = f"the pod has {count}" if seen == count else f"{topologies.hiding(around.maker)} leaves {seen} of {count}"
        message = (
            f"asks for {wanted} GPUs (tensor x pipeline x prefill context x data parallel), and {has}; "
            "lower one of them"
        )
        yield error(where.args, wanted, message, rule="vllm/parallel-size")
    elif wanted < count and around.alone:
        message = (
            f"{count - wanted} of {count} GPUs are idle on each node: the server uses {wanted}; "
            f"{_more(server, count, seen, around.maker)}"
        )
        yield warning(where.args, wanted, message, rule="vllm/parallel-size")


def _more(server: Server, count: int, seen: int | None, maker: str) -> str:
    """Say what would use all GPUs of the pod, of which some may be hidden from the server."""
    if seen is None or seen < count:
        return f"remove {topologies.hiding(maker)}, which hides the others, or ask for fewer"
    return f"{sizes.advise(server, count)}{_reason(server, count)}"


def _heads(server: Server, where: _Where, around: Circumstances) -> Iterator[Finding]:
    size, known = server.number("tensor-parallel-size"), heads.find(server.model or "")
    if not size or known is None or server.open or known.allow(size):
        return
    advice = sizes.advise(server, around.gpus) if around.gpus else "lower it"
    message = f"vLLM would not start: {_of(server)}, which {size} GPUs cannot share evenly; {advice}"
    yield warning(where.flag("tensor-parallel-size"), size, message, rule="vllm/heads")


def _reason(server: Server, count: int) -> str:
    """Say why one tensor parallel size over all GPUs is not the advice, where heads are the reason."""
    return "" if sizes.allowed(server, count) else f", because {_of(server)}"


def _of(server: Server) -> str:
    found = heads.find(server.model or "")
    name = (server.model or "").rstrip("/").rpartition("/")[2]
    name = beginning(name, _SHOWN)
    return f"{name} has {found.query} attention heads and {found.key_value} key-value heads" if found else name


def _known_model(server: Server, where: _Where) -> Iterator[Finding]:
    """Compare a length and expert parallelism with what is known of the model; other configurations may change both."""
    model = server.model or ""
    if not model or server.open or _CHANGING & server.parsed.values.keys():
        return
    if any(name.startswith("hf-overrides.") for name in server.parsed.values):
        return
    length, longest = parsing.count(server.text("max-model-len") or ""), models.context(model)
    if length is not None and longest is not None and length > longest and not server.is_set(_LONGER):
        message = (
            f"vLLM would not start: it is longer than the context of {beginning(model, _SHOWN)}, which is {longest}; "
            "lower it, or scale the positions by --hf-overrides"
        )
        yield warning(where.flag("max-model-len"), length, message, rule="vllm/model")
    if server.on("enable-expert-parallel") and models.is_dense(model):
        message = f"vLLM would not start: {beginning(model, _SHOWN)} has no experts; remove it"
        yield warning(where.flag("enable-expert-parallel"), None, message, rule="vllm/model")
    outside = next((flag for flag in _OUTSIDE if server.on(flag)), None)
    if outside and (server.number("data-parallel-size") or 1) > 1 and models.is_dense(model):
        message = (
            f"vLLM {flags.version()} would not start: {beginning(model, _SHOWN)} has no experts, and replicas of such "
            "a model know nothing of each other; remove the --data-parallel flags"
        )
        yield warning(where.flag(outside), None, message, rule="vllm/model")
    yield from _context(server, where, model)


_OUTSIDE = ("data-parallel-rank", "data-parallel-external-lb")


def _context(server: Server, where: _Where, model: str) -> Iterator[Finding]:
    """Compare context parallelism with the heads of keys and values, which it divides where tensors repeat them."""
    tensor, decode = server.number("tensor-parallel-size"), server.number("decode-context-parallel-size")
    known = heads.find(model)
    if not tensor or not decode or decode < 2 or known is None or models.is_latent(model):
        return
    most, queries = tensor // known.key_value, known.query // known.key_value
    reason = f"vLLM would not start: {_of(server)}, "
    if tensor <= known.key_value:
        reason += f"and --tensor-parallel-size has to be above {known.key_value}; raise it, or remove this"
    elif decode > most:
        reason += f"so that {tensor} ranks allow {most} at most; lower it"
    elif queries % decode:
        reason += f"and it has to divide the {queries} of each; lower it"
    else:
        return
    yield warning(where.flag("decode-context-parallel-size"), decode, reason, rule="vllm/heads")


_CHANGING = frozenset({"hf-overrides", "hf-config-path", "rope-scaling", "rope-theta", "config-format", "model-impl"})
_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
