"""Addresses: whether the training asks its sampler and nobody else, and whether the sampler can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from muster.strategies.documents.findings import Finding, Severity, beginning, error, note, warning
from muster.strategies.frameworks.samplers.pairs import ENV, OWN_POD, PORT, Pair
from muster.strategies.frameworks.vllm.vllm_servers import Server

__all__ = ["check"]

_LOOPBACK = OWN_POD - {"0.0.0.0"}  # noqa: S104  # the same
_SHOWN = 80


def check(pair: Pair) -> Iterator[Finding]:
    """Yield what keeps the training from its sampler."""
    training = pair.training
    if training.found is None:
        return
    if training.asks is False:
        yield from _idle(pair)
    elif training.mode == "colocate" and training.asks and pair.is_meant:
        message = (
            f"the trainer would start an engine on its own GPUs, and {pair.sampler.called} would be idle; "
            "remove --vllm_mode, or use a runtime without a sampler"
        )
        yield error(training.field("vllm_mode"), "--vllm_mode colocate", message, rule="sampler/mode")
    elif training.asks and training.mode not in (None, "", "server", "colocate"):
        message = "is not a mode of TRL, which stops at its start; remove it, and Muster writes server"
        yield error(training.field("vllm_mode"), f"--vllm_mode {training.mode}", message, rule="sampler/mode")
    elif training.asks and training.mode is None:
        yield from _hidden(pair)
    elif training.asks_server:
        yield from _asked(pair)


def _idle(pair: Pair) -> Iterator[Finding]:
    if not pair.is_meant or pair.training.found is None:
        return
    method = pair.training.found.method
    cure = "add --use_vllm" if pair.training.is_able else "use a runtime without a sampler"
    message = f"trl {method} does not ask {pair.sampler.called}, whose devices are idle; {cure}"
    yield warning(pair.training.field("use_vllm"), None, message, rule="sampler/idle")


def _hidden(pair: Pair) -> Iterator[Finding]:
    if not pair.is_meant:
        return
    message = (
        f"the mode may stand where Muster cannot see it, so nothing was written; {pair.sampler.called} is "
        f"asked with {_cure(pair)}"
    )
    yield note(pair.training.field("vllm_mode"), None, message, rule="sampler/mode")


def _asked(pair: Pair) -> Iterator[Finding]:
    if pair.rivals or pair.sampler.pods > 1:
        yield from _several(pair)
    if pair.training.is_addressed:
        yield from _named(pair)
    elif not pair.training.open:
        yield from _unnamed(pair)
    if pair.sampler.server is not None:
        yield from _reachable(pair, pair.sampler.server)


def _several(pair: Pair) -> Iterator[Finding]:
    server = pair.sampler.server
    if server is not None and server.spread:
        return  # pods of one engine
    if pair.rivals and pair.training.is_addressed:
        return  # it says which one
    names = ", ".join(each.name for each in (pair.sampler, *pair.rivals))
    what = f"replicated jobs {names}" if pair.rivals else f"{pair.sampler.pods} pods of {pair.sampler.name}"
    message = (
        f"are {what}, and TRL asks and updates one server only; keep one with one pod, and give it more GPUs by "
        "--tensor-parallel-size"
    )
    if pair.rivals:
        message = f"{message}, or label the others with another role and name the sampler by --vllm_server_base_url"
    yield pair.on_jobset(Severity.ERROR, "replicatedJobs", None, f"samplers {message}", rule="sampler/several")


def _unnamed(pair: Pair) -> Iterator[Finding]:
    """Refuse a training that nothing tells where its sampler is: its words cannot be extended, or nobody knows it."""
    training = pair.training
    if pair.rivals or (training.extends and pair.url is not None and pair.is_named):
        return  # told elsewhere, or written where Muster may write
    lacking = "--vllm_mode and --vllm_server_base_url are" if training.mode == "" else "--vllm_server_base_url is"
    message = (
        f"{lacking} missing, and without it {pair.sampler.called} is not asked; Muster adds nothing, because "
        f"{_obstacle(pair)}; write {_cure(pair)}"
    )
    surely = training.mode == "server" or (pair.is_meant and pair.sampler.server is not None)
    report = error if training.certain and surely else warning
    yield report(training.field("vllm_mode"), None, message, rule="sampler/url")


def _obstacle(pair: Pair) -> str:
    """Return why Muster does not write where the sampler is."""
    if not pair.is_named and pair.job.name is not None:
        return "its pod has no host name (network.enableDNSHostnames, completionMode)"
    if not pair.is_named:
        return "the name of this JobSet is still to be generated"
    if pair.sampler.server is None:
        return "it does not read the sampler's program"
    if pair.port is None:
        return "the sampler's port stands where admission cannot see it, or is none"
    if not pair.is_host_named:
        return f"{ENV} does not hold the host name of its pod; remove the variable"
    return "it cannot write into this command"


def _cure(pair: Pair) -> str:
    """Return the words that ask the sampler, in the notation of the place where they have to be written."""
    name = f"$({ENV})" if pair.training.extends else f"${ENV}"
    host = name if pair.is_named else "HOST"
    return f"--vllm_mode server --vllm_server_base_url http://{host}:{pair.port or PORT}"


def _named(pair: Pair) -> Iterator[Finding]:
    """Judge the server that the training names, as far as admission can see it."""
    training = pair.training
    flag = "vllm_server_base_url" if "vllm_server_base_url" in training.parsed.values else "vllm_server_host"
    text = str(training.parsed.values[flag])
    url = _split(text if "url" in flag else f"http://{text}:{training.text('vllm_server_port') or PORT}")
    if pair.rivals or pair.sampler.server is None:
        return
    shown = "" if "@" in text else f" {beginning(text, _SHOWN)}"  # it may hold a password
    value, field = f"--{flag}{shown}", training.field(flag)
    if f"{ENV})" in text or f"${ENV}" in text or f"{{{ENV}}}" in text:
        yield from _port(pair, url, field, value)
    elif "$" in text:
        return
    elif url is None or not url.hostname or _port_of(url) is None:
        message = f"is not a URL of a server; remove it, and Muster writes that of {pair.sampler.called}"
        yield error(field, value, message, rule="sampler/url")
    elif url.hostname in OWN_POD and not _has_neighbour(pair):
        message = (
            f"is the trainer's own pod, and {pair.sampler.called} has one of its own; remove it, and Muster "
            "writes the sampler's"
        )
        yield error(field, value, message, rule="sampler/url")
    elif _is_sampler(pair, url.hostname):
        yield from _port(pair, url, field, value)
    elif url.hostname not in OWN_POD:
        yield from _elsewhere(pair, url.hostname, field, value)


def _elsewhere(pair: Pair, host: str, field: str, value: str) -> Iterator[Finding]:
    name = pair.job.name
    own = name is not None and host.partition(".")[0].startswith(f"{name}-") and "." in host
    if own and host.partition(".")[0].startswith((f"{name}-{pair.sampler.name}-", f"{name}-{pair.node.job_name}-")):
        message = f"is a pod of this job, and its sampler is {pair.host}; remove it, and Muster writes the sampler's"
        yield error(field, value, message, rule="sampler/url")
    else:
        message = (
            f"is not {pair.sampler.called} of this job, and Muster cannot see whether this is a Service in front of "
            "it; otherwise the sampler is idle; without the flag Muster writes the sampler's address"
        )
        yield note(field, value, message, rule="sampler/url")


def _port(pair: Pair, url: SplitResult | None, field: str, value: str) -> Iterator[Finding]:
    written = _port_of(url)
    if url is not None and pair.port is not None and written not in (None, pair.port):
        message = f"is port {written}, and {pair.sampler.called} listens to {pair.port}; correct one of both"
        yield error(field, value, message, rule="sampler/url")


def _port_of(url: SplitResult | None) -> int | None:
    try:
        return None if url is None else url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:
        return None


def _split(text: str) -> SplitResult | None:
    try:
        return urlsplit(text)
    except ValueError:
        return None


def _is_sampler(pair: Pair, host: str) -> bool:
    """Whether a host is the sampler's pod by its name, whose longer forms end with the namespace and the cluster."""
    if pair.host is None:
        return True  # the name of the job is still to be generated, so it cannot be compared
    return host == pair.host or host.startswith((f"{pair.host}.svc", f"{pair.host}.{pair.job.namespace}"))


def _has_neighbour(pair: Pair) -> bool:
    """Whether another container of the trainer's pod could hold a server."""
    pod = pair.node.pod_spec
    return len(pod.get("containers") or ()) + len(pod.get("initContainers") or ()) > 1


def _reachable(pair: Pair, server: Server) -> Iterator[Finding]:
    """Refuse a server that no client of TRL can speak to from another pod."""
    for flag, message in _walls(server):
        severity = Severity.ERROR if server.certain else Severity.WARNING
        yield pair.on_sampler(severity, "args", f"--{flag}", message, rule="sampler/reach")


def _walls(server: Server) -> Iterator[tuple[str, str]]:
    if server.grpc:
        yield "grpc", "the sampler speaks gRPC, and TRL's client speaks HTTP; serve over HTTP"
    if server.text("host") in _LOOPBACK:
        yield "host", "the sampler answers its own pod only, and the trainer is in another one; use --host 0.0.0.0"
    if server.has("uds"):
        yield "uds", "the sampler listens to a socket of its own pod, and the trainer is in another one; use a port"
    if server.on("api-key") or "VLLM_API_KEY" in server.env:
        message = "the sampler asks for a key, and TRL's client sends none; remove it, and keep others off the port"
        yield "api-key", f"{message} by a NetworkPolicy"
