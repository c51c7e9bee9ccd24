"""Agreements: whether both roles speak of the same weights, in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import names, pods
from muster.strategies.documents.findings import Finding, Severity, error, warning
from muster.strategies.frameworks.samplers import adapters, completions, hardware, models, transfers
from muster.strategies.frameworks.samplers.adapters import Adapters
from muster.strategies.frameworks.samplers.pairs import Pair
from muster.strategies.frameworks.vllm import serve_arguments
from muster.strategies.frameworks.vllm.vllm_servers import Server

__all__ = ["check"]

_DTYPES = {"half": "float16", "float": "float32"}
_TRUE = frozenset({"1", "true"})


def check(pair: Pair) -> Iterator[Finding]:
    """Yield where the sampler, as it will run, is not what the training expects."""
    server = completions.completed(pair)
    if server is None or pair.rivals or not pair.is_asked:
        return
    yield from _model(pair, server)
    yield from _lora(pair, server)
    if pair.training.found is not None and not server.open and not pair.sampler.trls:
        yield from _transfer(pair, server)
        yield from _files(pair, server)
        yield from _logprobs(pair, server)
        yield from _dev_mode(pair, server)
    yield from _dtype(pair, server)


def _model(pair: Pair, server: Server) -> Iterator[Finding]:
    trained, served = pair.training.text("model_name_or_path"), server.model
    if served is None:
        yield from _unnamed(pair, server)
    if trained is None or served is None or serve_arguments.hidden(served):
        return
    field = pair.training.field("model_name_or_path")
    shown = f"--model_name_or_path {trained}"
    if models.same(served, trained):
        yield from _revision(pair, server, trained)
    elif not (models.is_path(served) or models.is_path(trained)):
        message = f"is not the model of {pair.sampler.called}, which serves {served}; name one model in both"
        yield error(field, shown, message, rule="sampler/model")
    elif not models.may_be_same(served, trained) and not _downloaded(pair, served, trained):
        message = (
            f"may be another model than {served}, which {pair.sampler.called} serves; name it in both roles "
            "in the same way"
        )
        yield warning(field, shown, message, rule="sampler/model")


def _unnamed(pair: Pair, server: Server) -> Iterator[Finding]:
    """Warn about a sampler that names no model, where the trainer's cannot be seen and so not be written."""
    if server.open or server.parsed.positionals or pair.sampler.trls:
        return
    message = (
        "the sampler names no model and would serve vLLM's default one, because Muster cannot see the model that is "
        "trained, or cannot write into this command; name it on the sampler"
    )
    yield pair.on_sampler(Severity.WARNING, _words(pair), None, message, rule="sampler/model")


def _revision(pair: Pair, server: Server, trained: str) -> Iterator[Finding]:
    written = pair.training.parsed.values.get("model_revision", None if pair.training.open else "main")
    served = server.text("revision") or (None if server.open else "main")
    if models.is_path(trained) or not isinstance(written, str) or served is None:
        return
    if "$" in written or serve_arguments.hidden(served) or written == served:
        return
    message = (
        f"is not the revision of {pair.sampler.called}, which serves {served}; give --model_revision and the "
        "sampler's --revision the same value"
    )
    yield error(pair.training.field("model_revision"), f"--model_revision {written}", message, rule="sampler/model")


def _downloaded(pair: Pair, *model: str) -> bool:
    """Whether an initializer of the job downloads one of two names to a folder, which the other may be."""
    named = [each.casefold() for each in model if not models.is_path(each)]
    uris = [uri.casefold() for uri in _uris(pair.spec.get("replicatedJobs"))]
    return any(uri.endswith(f"//{each}") for each in named for uri in uris)


def _uris(jobs: Any) -> Iterator[str]:
    for each in jobs if isinstance(jobs, list) else ():
        if pods.labels(each).get(names.ANCESTOR_LABEL) == "model-initializer":
            for container in _containers(each):
                yield pods.env_value(container.get("env"), "STORAGE_URI") or ""


def _containers(job: Mapping[str, Any]) -> Sequence[Any]:
    spec = ((((job.get("template") or {}).get("spec") or {}).get("template")) or {}).get("spec") or {}
    return spec.get("containers") or ()


def _transfer(pair: Pair, server: Server) -> Iterator[Finding]:
    if server.has(transfers.FLAG):
        yield from _way(pair, server)
        return
    if pair.sampler.bare:  # Muster adds the flag, unless a role has no GPU, which is told elsewhere
        return
    severity = Severity.ERROR if server.certain and pair.training.certain else Severity.WARNING
    message = (
        f"the sampler has no --{transfers.FLAG}, without which TRL stops at its start, and Muster cannot add it to "
        f"this command; add --{transfers.FLAG} '{transfers.config(pair)}'"
    )
    yield pair.on_sampler(severity, _words(pair), None, message, rule="sampler/transfer")


def _way(pair: Pair, server: Server) -> Iterator[Finding]:
    """Refuse two roles of which one sends or takes weights by files, and the other does not."""
    named, said = transfers.backend(server), any(transfers.folders(pair))
    if named == transfers.FILES and not said:
        message = f"neither role names the folder for weights by files; set {transfers.FOLDER} in spec.trainer.env"
        yield pair.on_sampler(Severity.ERROR, "args", named, message, rule="sampler/transfer")
    elif said and named not in (None, "", transfers.FILES):
        message = (
            f"{transfers.FOLDER} lets the training send files, which the sampler does not take; remove it, or use "
            f"the backend {transfers.FILES}"
        )
        yield pair.on_sampler(Severity.ERROR, "args", named, message, rule="sampler/transfer")


def _files(pair: Pair, server: Server) -> Iterator[Finding]:
    """Refuse a sampler that takes weights by files and ends at its start (`images/weights` engine.py)."""
    if not transfers.sends_files(pair):
        return
    if server.api_servers is not None and server.api_servers > 1:
        message = "a sampler that takes weights by files has one API server; set --api-server-count 1"
        yield pair.on_sampler(Severity.ERROR, _words(pair), server.api_servers, message, rule="sampler/transfer")
    if server.on("quantization") and not serve_arguments.hidden(server.text("quantization") or ""):
        message = "a quantized sampler takes no weights by files; remove it, or send weights by NCCL"
        value = f"--quantization {server.text('quantization')}"
        yield pair.on_sampler(Severity.ERROR, _words(pair), value, message, rule="sampler/transfer")
    yield from _compared(pair, server)


def _compared(pair: Pair, server: Server) -> Iterator[Finding]:
    """Report a sampler that ends when whole weights are compared: vLLM 0.31 on CPUs with adapters switched on.

    The trainer asks for the probabilities of a prompt after each version of whole weights (`images/weights` probes.py),
    unless the model is sharded; with adapters by files it asks for drawn tokens instead.
    """
    given = pair.training.parsed
    sharded = any(given.values.get(name) for name in ("fsdp", "deepspeed")) or bool(given.launcher_values)
    if not server.on("enable-lora") or adapters.find(pair) is not None or hardware.count(pair) != 0 or sharded:
        return
    message = (
        "the training sends whole weights and compares them by the probabilities of a prompt, and vLLM 0.31 on CPUs "
        "ends where it is asked for these with adapters switched on; remove --enable-lora and its other flags"
    )
    doubtful = pair.training.open or pair.job.kind == "JobSet"  # an image of one's own may hold another vLLM
    severity = Severity.WARNING if doubtful else Severity.ERROR
    yield pair.on_sampler(severity, _words(pair), "--enable-lora", message, rule="sampler/whole-weights")


def _logprobs(pair: Pair, server: Server) -> Iterator[Finding]:
    written = server.text("logprobs-mode")
    if written == "processed_logprobs" or (written and serve_arguments.hidden(written)):
        return
    message = (
        "TRL's importance ratio compares with log-probabilities after temperature and filters, and would be biased "
        "without a word; use --logprobs-mode processed_logprobs"
    )
    value = f"--logprobs-mode {written or 'raw_logprobs'}"
    yield pair.on_sampler(Severity.WARNING, _words(pair), value, message, rule="sampler/logprobs")


def _dev_mode(pair: Pair, server: Server) -> Iterator[Finding]:
    written = server.env.get(completions.DEV_MODE, "")
    if completions.DEV_MODE not in server.env or written is None or written.strip().lower() in _TRUE or "$" in written:
        return
    message = "closes the endpoints to which TRL sends weights, so that it stops at its start; set it to 1"
    field = f"env[{completions.DEV_MODE}]"
    yield pair.on_sampler(Severity.ERROR, field, written, message, rule="sampler/env")


def _dtype(pair: Pair, server: Server) -> Iterator[Finding]:
    written, computed = server.text("dtype"), pair.training.dtype
    served = _DTYPES.get(written or "", written)
    if computed is None or served in (None, "auto", computed) or serve_arguments.hidden(served or ""):
        return
    message = (
        f"the trainer computes in {computed}, so that the sampler's probabilities differ from the trainer's by "
        f"rounding; use --dtype {computed}, or train in {served}"
    )
    yield pair.on_sampler(Severity.WARNING, _words(pair), f"--dtype {written}", message, rule="sampler/dtype")


def _lora(pair: Pair, server: Server) -> Iterator[Finding]:
    found = adapters.find(pair)
    if found is None:
        return
    if adapters.by_files(pair) and not any(transfers.folders(pair)):
        message = f"its adapters go by files, and neither role names a folder for them; set {transfers.FOLDER}"
        yield error(pair.training.field("use_peft"), "--use_peft", message, rule="sampler/transfer")
    if server.open:
        return
    for value, message in _limits(found, server):
        yield pair.on_sampler(Severity.ERROR, _words(pair), value, message, rule="sampler/lora")


def _limits(found: Adapters, server: Server) -> Iterator[tuple[str | None, str]]:
    because = f"({found.because})"
    if not server.on("enable-lora"):
        message = f"the sampler loads no adapters, which the training sends {because}; add --enable-lora"
        yield "--no-enable-lora" if server.has("enable-lora") else None, message
        return
    held, rank = server.number("max-loras"), _limit(server)
    if found.count is not None and held is not None and held < found.count:
        message = (
            f"the training needs {found.count} adapters at once, its max_staleness and two {because}, and stops at its "
            f"start; use --max-loras {found.count}"
        )
        yield f"--max-loras {held}", message
    if found.rank is not None and rank is not None and rank < found.rank:
        fitting = found.fitting_rank
        cure = f"use --max-lora-rank {fitting}" if fitting else "lower the rank, for vLLM holds none so high"
        message = f"the training sends adapters of rank {found.rank} {because}, which the sampler cannot hold; {cure}"
        yield f"--max-lora-rank {rank}", message


def _limit(server: Server) -> int | None:
    """Return the highest rank that vLLM holds, 16 unless it is given."""
    return server.number("max-lora-rank") if server.on("max-lora-rank") else 16


def _words(pair: Pair) -> str:
    return "args" if pair.sampler.bare or pair.sampler.site.args else "command"
