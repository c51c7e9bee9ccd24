"""Additions: what Muster writes on both sides, so that the training finds its sampler and the sampler serves it.

On the training, the mode, the URL and a patience that is as long as the sampler's start may take. The URL names the
sampler by a variable, because the name of a TrainJob may still be generated; the variable is written on the JobSet. On
the sampler, flags, env and probes.

TRL's client wants vLLM's development endpoints and a configured way of weights, or it stops at its start; without
processed log-probabilities its importance ratio is biased, and it only warns (trl `generation/vllm_client.py`,
`vllm_generation.py`, `scripts/vllm_serve.py`). A flag that the sampler has is never changed.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import structs

from muster.strategies.changes.changes import Changes
from muster.strategies.documents import paths, pods
from muster.strategies.documents.findings import warning
from muster.strategies.frameworks.samplers import role_pairs, role_resources, sent_weights
from muster.strategies.frameworks.samplers.role_pairs import ENV, Pair
from muster.strategies.frameworks.vllm import gpu_shares, health_probes, serve_arguments, vllm_servers
from muster.strategies.frameworks.vllm.vllm_servers import Form, Server
from muster.strategies.launches import topologies
from muster.strategies.launches.sites import Site

__all__ = ["address", "complete", "completed", "waits"]

_PATIENCE = 1800
"""Seconds that the training waits for its sampler: as long as the startup probe that Muster writes lets it load."""
_DEV_MODE = "VLLM_SERVER_DEV_MODE"
"""The env that opens the endpoints by which weights are updated, and others, to everybody who reaches the port."""
_Wish = tuple[str, str, str]
"""A word to add, the rule and the reason."""
_Flag = tuple[tuple[str, ...], str]
"""A flag to add to the sampler: its words, and what it is for."""


def address(pair: Pair, changes: Changes) -> None:
    """Write mode, URL and patience behind the arguments of the training."""
    training = pair.training
    if not training.extends or not training.asks_server or training.parsed.faults:
        return
    if pair.url is None or not pair.is_named:
        return
    site, behind = training.site, training.foreign
    for word, rule, reason in _wishes(pair):
        command, args = _with(site, word, behind)
        site.write(changes, command, args, rule=rule, reason=reason)
        site = structs.replace(site, command=command, args=args)


def _with(site: Site, word: str, behind: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return command and arguments with a word before the last `behind` words, which are flags of accelerate."""
    if behind <= len(site.args):
        place = len(site.args) - behind
        return site.command, (*site.args[:place], word, *site.args[place:])
    place = len(site.argv) - behind
    return (*site.command[:place], word, *site.command[place:]), site.args


def _wishes(pair: Pair) -> Iterator[_Wish]:
    training = pair.training
    if training.mode == "":
        reason = f"without it, TRL starts an engine beside the trainer, and {pair.sampler.called} is idle"
        yield "--vllm_mode=server", "sampler/mode", reason
    if not training.is_addressed:
        reason = f"the training asks {pair.sampler.called}, whose host name {ENV} holds in its pods"
        yield f"--vllm_server_base_url={pair.url}", "sampler/url", reason
    if "vllm_server_timeout" not in training.parsed.values and not waits(pair):
        reason = f"nothing lets the training start after the sampler, which may take {_PATIENCE} s to load its model"
        yield f"--vllm_server_timeout={_PATIENCE}", "sampler/timeout", reason


def waits(pair: Pair) -> bool:
    """Whether the training starts when its sampler is ready."""
    return any(each.name == pair.sampler.name and each.status == "Ready" for each in pair.node.job.depends_on)


def complete(pair: Pair, changes: Changes) -> None:
    """Write the sampler's name into the env of the training, and flags, env and probes of the sampler."""
    if pair.host is not None and not pair.rivals and pair.is_used is not False:
        reason = f"programs of the training find {pair.sampler.called} by this name"
        _add_env(changes, pair.node, (ENV, pair.host, reason))
    _add_folder(pair, changes)
    _add_flags(pair, changes)
    for entry in _list_env(pair):
        _add_env(changes, pair.sampler.place, entry)
    server = pair.sampler.server
    if server is not None and pair.is_asked:
        ready = "the sampler is ready for the training"
        health_probes.add(changes, pair.sampler.place.path, server, rule="sampler/probes", ready=ready)


def _add_folder(pair: Pair, changes: Changes) -> None:
    """Let the training send weights by files, where only the sampler's runtime says so."""
    mine, theirs = sent_weights.folders(pair)
    if theirs and not mine and pair.is_asked and not serve_arguments.hidden(theirs):
        _add_env(changes, pair.node, (sent_weights.FOLDER, theirs, "the sampler reads weights from this folder"))


def _add_flags(pair: Pair, changes: Changes) -> None:
    found, site = _list_flags(pair), pair.sampler.site
    if found:
        words = [word for flag, _ in found for word in flag]
        reason = f"the sampler of this training is completed so that {'; '.join(reason for _, reason in found)}"
        command = vllm_servers.written_command(site)
        site.write(changes, command, (*site.args, *words), rule="sampler/flags", reason=reason)


def _add_env(changes: Changes, place: pods.Place, entry: tuple[str, str, str]) -> None:
    name, value, reason = entry
    found = place.container.find_env(name)
    if found is None:
        changes.append((*place.path, "env"), {"name": name, "value": value}, rule="sampler/env", reason=reason)
    elif found.value != value:
        where = f"{paths.field(changes.document, place.path)}.env[{name}]"
        message = f"kept as the job sets it; Muster would have set {value!r}, because {reason}"
        changes.report(warning(where, found.literal, message, rule="sampler/env"))


# --- what the sampler lacks -------------------------------------------------------------------------------------------


def _list_flags(pair: Pair) -> list[_Flag]:
    """Return the flags to add to the sampler; none where they would not reach it, or a file may hold them."""
    server = pair.sampler.server
    if server is None or server.open or server.form is Form.GRPC or not pair.sampler.bare or not pair.is_asked:
        return []
    return [flag for flag in _wanted(pair, server) if not server.has(flag[0][0].lstrip("-"))]


def _wanted(pair: Pair, server: Server) -> Iterator[_Flag]:
    yield from _model(pair, server)
    size = _tensor_parallel_size(pair, server)
    if size is not None:
        yield ("--tensor-parallel-size", str(size)), "it uses all GPUs of its own pod"
    if role_resources.idle_role(pair) is None or not sent_weights.is_nccl(pair):
        yield (f"--{sent_weights.FLAG}", sent_weights.config(pair)), "the trainer can send it weights"
    reason = "its log-probabilities are those of the tokens that were drawn, which the importance ratio compares"
    yield ("--logprobs-mode", "processed_logprobs"), reason
    dtype = pair.training.dtype
    if dtype is not None:
        yield ("--dtype", dtype), f"it computes in {dtype} as the trainer does"
    yield from _adapters(pair)


def _model(pair: Pair, server: Server) -> Iterator[_Flag]:
    trained, revision = (pair.training.text(name) for name in ("model_name_or_path", "model_revision"))
    if trained is None:
        return
    if server.model is None and not server.parsed.positionals:
        yield ("--model", trained), "it serves the model that is trained"
    elif server.model is None or not role_pairs.same_model(server.model, trained):
        return
    if revision not in (None, "main") and not role_pairs.is_path(trained):
        yield ("--revision", str(revision)), "it serves the revision that is trained"


def _adapters(pair: Pair) -> Iterator[_Flag]:
    found = sent_weights.find_adapters(pair)
    if found is None:
        return
    yield ("--enable-lora",), "it can load the adapters of the training"
    if found.count is not None:
        yield ("--max-loras", str(found.count)), "it holds the adapters of every version that may be asked"
    if found.fitting_rank is not None:
        yield ("--max-lora-rank", str(found.fitting_rank)), "it holds adapters of this rank"


def _tensor_parallel_size(pair: Pair, server: Server) -> int | None:
    others = topologies.sees_others(pair.sampler.place.container)
    gpus = topologies.visible(role_resources.count_devices(pair), server.env, others=others)
    trained = pair.training.text("model_name_or_path")
    if trained and not server.model and not server.parsed.positionals:  # its heads limit the size
        server = vllm_servers.extended(server, ("--model", trained))
    return gpu_shares.missing(server, gpus)


def completed(pair: Pair) -> Server | None:
    """Return the sampler's server as it will run, with the flags that Muster adds for each training that asks it."""
    key = (completed, pair.sampler.place.path)
    return role_pairs.kept(pair.job, key, len(pair.job.changes), lambda: _completed(pair))


def _completed(pair: Pair) -> Server | None:
    sampler = pair.sampler
    for each in role_pairs.asking(pair):
        words = [word for flag, _ in _list_flags(structs.replace(each, sampler=sampler)) for word in flag]
        if words and sampler.server is not None:
            sampler = structs.replace(sampler, server=vllm_servers.extended(sampler.server, words))
    return sampler.server


def _list_env(pair: Pair) -> Iterator[tuple[str, str, str]]:
    """Yield (name, value, reason) of each variable that the sampler needs."""
    server = pair.sampler.server
    if server is None or server.form is Form.GRPC or not pair.is_asked:
        return
    yield _DEV_MODE, "1", "the trainer sends weights to endpoints that vLLM opens only in this mode"
    mine = sent_weights.folder(pair.node)
    if mine and not sent_weights.folder(pair.sampler.place) and not serve_arguments.hidden(mine):
        yield sent_weights.FOLDER, mine, "the trainer writes weights into this folder"
    if sent_weights.find_adapters(pair) is not None and not sent_weights.by_files(pair):
        yield "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True", "vLLM loads adapters at run time only with this variable"
