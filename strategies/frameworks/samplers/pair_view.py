"""A training and its sampler as the rows of `pair_rows.toml` name them, and where their findings stand.

`training.FLAG` is a flag of TRL, `sampler.FLAG` one of vLLM as it will run, once Muster has completed it, `env.NAME` a
variable of the sampler; everything else is a fact about both.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from muster.strategies.documents.findings import Finding, beginning
from muster.strategies.frameworks.samplers import pair_additions, role_resources, sent_weights
from muster.strategies.frameworks.samplers.role_pairs import ENV, OWN_POD, Pair, is_path, last_name, same_model
from muster.strategies.frameworks.vllm.serve_view import Circumstances, ServeView
from muster.strategies.frameworks.vllm.vllm_servers import PORT, Server
from muster.strategies.rules import UNKNOWN, Value, judge
from muster.strategies.rules.relations import Rows

__all__ = ["check"]

_SHOWN = 80
_DTYPES = {"half": "float16", "float": "float32"}
_GANGS = ("coscheduling", "volcano")
_URLS = ("vllm_server_base_url", "vllm_server_host")


def check(pair: Pair) -> Iterator[Finding]:
    """Yield where both roles are not what each expects of the other, or what is around them keeps them apart."""
    server = pair_additions.completed(pair)
    view = _View(pair, ServeView(server, pair.sampler.site, Circumstances()) if server else None)
    for finding in judge(_rows(), view):
        mine = finding.field.startswith(f"{pair.training.site.place}.")
        yield finding if mine else pair.relayed(finding)


@functools.cache
def _rows() -> Rows:
    return Rows(Path(__file__).with_name("pair_rows.toml").read_text(encoding="utf-8"))


class _View(Struct, frozen=True):
    pair: Pair
    serving: ServeView | None

    @property
    def server(self) -> Server | None:
        return self.serving.server if self.serving else None

    @property
    def adapters(self) -> sent_weights.Adapters | None:
        return sent_weights.find_adapters(self.pair)

    @property
    def written(self) -> Collection[str]:
        served = self.serving.written if self.serving else ()
        return {
            *(f"training.{each}" for each in self.pair.training.parsed.values),
            *(f"sampler.{each}" for each in served),
        }

    def value(self, name: str) -> Value:
        if name in _FACTS:
            return _FACTS[name](self)
        role, _, member = name.partition(".")
        if role == "training":
            given = self.pair.training.parsed.values.get(member)
            hidden = isinstance(given, str) and "$" in given
            return UNKNOWN if hidden or (given is None and self.pair.training.open) else _plain(given)
        return None if self.serving is None else self.serving.value(member if role == "sampler" else name)

    def field(self, name: str) -> str:
        role, _, member = name.partition(".")
        site = self.pair.sampler.site
        if role == "jobset":
            return f"spec.replicatedJobs[{self.pair.node.job_name}]" if member == "node" else f"spec.{member}"
        if role == "sampler":
            words = "args" if self.pair.sampler.bare or site.args or member == "args" else "command"
            return f"{site.place}.{member if member.startswith('env[') else words}"
        training = self.pair.training
        return f"{training.site.place}.{_words(training.site.args)}" if member == "words" else training.field(member)

    def shown(self, name: str, value: Value) -> object:
        role, _, member = name.partition(".")
        if name in self.written:
            text = str(self.pair.training.parsed.values[member]) if role == "training" else ""
            secret = member in _URLS and "@" in text  # it may hold a password
            if role == "sampler":
                return self.serving.shown(member, value) if self.serving else None
            return f"--{member}" if secret or text == "True" else f"--{member} {beginning(text, _SHOWN)}"
        return value if role == "jobset" and isinstance(value, str) else None


def _words(args: Sequence[str]) -> str:
    return "args" if args else "command"


def _plain(given: object) -> Value:
    return given if isinstance(given, bool | int | float | str) else UNKNOWN if given is not None else None


def _known(found: bool | float | str | None) -> Value:
    return UNKNOWN if found is None else found


# --- whether the training asks its sampler ----------------------------------------------------------------------------


def _cure(view: _View) -> str:
    """Return the words that ask the sampler, in the notation of the place where they have to be written."""
    pair = view.pair
    name = f"$({ENV})" if pair.training.extends else f"${ENV}"
    return f"--vllm_mode server --vllm_server_base_url http://{name if pair.is_named else 'HOST'}:{pair.port or PORT}"


def _obstacle(view: _View) -> str:
    """Return why Muster does not write where the sampler is, "" where it does."""
    pair = view.pair
    if pair.training.extends and pair.url is not None and pair.is_named:
        return ""
    reasons = (
        (not pair.is_named and pair.job.name is None, "the name of this JobSet is still to be generated"),
        (not pair.is_named, "its pod has no host name (network.enableDNSHostnames, completionMode)"),
        (pair.sampler.server is None, "it does not read the sampler's program"),
        (pair.port is None, "the sampler's port stands where admission cannot see it, or is none"),
        (not pair.is_host_named, f"{ENV} does not hold the host name of its pod; remove the variable"),
    )
    return next((why for holds, why in reasons if holds), "it cannot write into this command")


def _needs_url(view: _View) -> bool:
    pair, training = view.pair, view.pair.training
    return training.certain and (training.mode == "server" or (pair.is_meant and pair.sampler.server is not None))


def _url(pair: Pair) -> tuple[str, SplitResult | None]:
    """Return the text that names the server, and what it is as a URL, None where it is none."""
    values = pair.training.parsed.values
    text = str(values.get(_URLS[0]) or values.get(_URLS[1]) or "")
    port = pair.training.text("vllm_server_port") or PORT
    try:
        return text, urlsplit(text if _URLS[0] in values else f"http://{text}:{port}")
    except ValueError:
        return text, None


def _leads_to(view: _View) -> Value:
    """Return to whom the URL of the training leads, as far as admission can see it."""
    pair, (text, url) = view.pair, _url(view.pair)
    if pair.rivals or pair.sampler.server is None:
        return UNKNOWN
    if "$" in text:
        named = any(f"{before}{ENV}" in text for before in ("$(", "$", "${"))
        return "the sampler" if named else UNKNOWN
    return _host(pair, url.hostname) if url and url.hostname and _port_of(url) is not None else "nowhere"


def _host(pair: Pair, host: str) -> Value:
    pod = pair.node.pod
    roles = tuple(f"{pair.job.name}-{each}-" for each in (pair.sampler.name, pair.node.job_name))
    alone = len(pod.containers) + len(pod.init_containers) <= 1
    if host in OWN_POD:
        return "the own pod" if alone else UNKNOWN if pair.host else "the sampler"
    # A job without a name gets one later, so that no host can be compared; longer names end with the namespace.
    if pair.host in (None, host) or host.startswith((f"{pair.host}.svc", f"{pair.host}.{pair.job.namespace}")):
        return "the sampler"
    return "another pod" if "." in host and host.startswith(roles) else "elsewhere"


def _port_of(url: SplitResult | None) -> int | None:
    try:
        return None if url is None else url.port or {"http": 80, "https": 443}.get(url.scheme)
    except ValueError:
        return None


def _is_keyed(view: _View) -> bool:
    server = view.pair.sampler.server
    return server is not None and (server.on("api-key") or "VLLM_API_KEY" in server.env)


# --- the model, its weights and its numbers ---------------------------------------------------------------------------


def _served_model(view: _View) -> Value:
    """Return whether the sampler serves the model that is trained, by the names of both."""
    trained, served = view.pair.training.text("model_name_or_path"), view.server.model if view.server else None
    if trained is None or served is None or "$" in served or "`" in served:
        return UNKNOWN
    if same_model(served, trained):
        return "the same folder" if is_path(trained) else "the same of the hub"
    if not is_path(served) and not is_path(trained):
        return "another"
    alike = last_name(served) == last_name(trained) or _is_downloaded(view.pair, served, trained)
    return "perhaps the same" if alike else "perhaps another"


def _is_downloaded(pair: Pair, *model: str) -> bool:
    """Whether an initializer of the job downloads one of two names to a folder, which the other may be."""
    named = tuple(f"//{each.casefold()}" for each in model if not is_path(each))
    initializers = (each for each in pair.spec.replicated_jobs if each.is_model_initializer)
    uris = (each.env_value("STORAGE_URI") or "" for job in initializers for each in job.pod.containers)
    return any(uri.casefold().endswith(named) for uri in uris)


def _trained_revision(view: _View) -> Value:
    written = view.value("training.model_revision")
    return "main" if written is None else written


def _served_revision(view: _View) -> Value:
    written = view.value("sampler.revision")
    return written if written is not None else UNKNOWN if view.server is None or view.server.open else "main"


def _served_dtype(view: _View) -> Value:
    written = view.value("sampler.dtype")
    return _DTYPES.get(written, written) if isinstance(written, str) else written


def _is_compared(view: _View) -> bool:
    readable = view.server is not None and not view.server.open and not view.pair.sampler.trls
    return _is_agreed(view) and view.pair.training.found is not None and readable


def _is_agreed(view: _View) -> bool:
    return view.server is not None and not view.pair.rivals and view.pair.is_asked


def _ends_when_compared(view: _View) -> bool:
    """Whether a sampler ends when whole weights are compared: vLLM on CPUs with adapters switched on.

    The trainer asks for the probabilities of a prompt after each version of whole weights (`images/weights` probes.py),
    unless the model is sharded; with adapters by files it asks for drawn tokens instead.
    """
    pair, given = view.pair, view.pair.training.parsed
    sharded = any(given.values.get(name) for name in ("fsdp", "deepspeed")) or bool(given.launcher_values)
    whole = view.adapters is None and role_resources.count_devices(pair) == 0 and not sharded
    return whole and view.server is not None and view.server.on("enable-lora")


def _rank_cure(view: _View) -> str:
    fitting = view.adapters.fitting_rank if view.adapters else None
    return f"use --max-lora-rank {fitting}" if fitting else "lower the rank, for vLLM holds none so high"


# --- what is around the two roles -------------------------------------------------------------------------------------


def _gang(view: _View) -> str | None:
    runtime = view.pair.job.runtime
    policy = runtime.value.spec.pod_group_policy if runtime else {}
    return next((each for each in _GANGS if policy.get(each) is not None), None)


def _never_ends(view: _View) -> bool:
    """Whether a policy of success waits for a server, which never ends by itself."""
    policy, sampler = view.pair.spec.success_policy, view.pair.sampler
    waits = not policy.target_replicated_jobs or sampler.name in policy.target_replicated_jobs
    return policy.operator == "All" and sampler.server is not None and waits


def _is_surely_a_sampler(view: _View) -> bool:
    sampler = view.pair.sampler
    return (
        view.pair.is_meant and sampler.server is not None and sampler.server.certain and (sampler.bare or sampler.trls)
    )


def _restarts(view: _View) -> bool:
    """Whether a failed trainer starts again beside a sampler that still holds the state of the first one."""
    node = view.pair.node
    return node.pod.restart_policy != "Never" or node.job.template.spec.backoff_limit != 0


def _output_apart(view: _View) -> str | None:
    output = view.adapters.output if view.adapters else None
    return role_resources.why_apart(view.pair, output) if output and output.startswith("/") else None


def _folders(view: _View) -> tuple[str, str]:
    """Return the folder for weights of each role, that of the other one where a role names none."""
    mine, theirs = sent_weights.folders(view.pair)
    return mine or theirs, theirs or mine


def _folder_apart(view: _View) -> str | None:
    mine, theirs = _folders(view)
    both = mine.startswith("/") and theirs.startswith("/")
    return role_resources.why_differing(view.pair, mine, theirs) if both else None


def _of_adapters(member: str) -> Callable[[_View], Value]:
    def read(view: _View) -> Value:
        value = getattr(view.adapters, member, None)
        return UNKNOWN if value is None else _plain(value)

    return read


_LACKING = ("--vllm_server_base_url is", "--vllm_mode and --vllm_server_base_url are")
_FACTS: Mapping[str, Callable[[_View], Value]] = {
    "adapter_count": _of_adapters("count"),
    "adapter_rank": _of_adapters("rank"),
    "adapters": lambda view: view.adapters is not None,
    "adapters_by_files": lambda view: view.adapters is not None and sent_weights.by_files(view.pair),
    "adapters_by_flag": lambda view: view.adapters is not None and view.adapters.index is not None,
    "addressed": lambda view: view.pair.training.is_addressed,
    "agreed": _is_agreed,
    "api_servers": lambda view: _known(view.server.api_servers if view.server else None),
    "asked": lambda view: view.pair.is_asked,
    "asks": lambda view: _known(view.pair.training.asks),
    "asks_server": lambda view: view.pair.training.found is not None and view.pair.training.asks_server,
    "backend": lambda view: _known(sent_weights.backend(view.server)),
    "bare": lambda view: view.pair.sampler.bare,
    "because": _of_adapters("because"),
    "both_certain": lambda view: view.pair.training.certain and view.server is not None and view.server.certain,
    "by_nccl": lambda view: sent_weights.is_nccl(view.pair),
    "called": lambda view: view.pair.sampler.called,
    "compared": _is_compared,
    "cure": _cure,
    "ends_when_compared": _ends_when_compared,
    "folder": lambda view: _folders(view)[0],
    "folder_apart": _folder_apart,
    "folders": lambda view: any(sent_weights.folders(view.pair)),
    "gang": _gang,
    "grpc": lambda view: view.pair.sampler.server is not None and view.pair.sampler.server.grpc,
    "host": lambda view: view.pair.host,
    "idle_cure": lambda view: "add --use_vllm" if view.pair.training.is_able else "use a runtime without a sampler",
    "idle_role": lambda view: role_resources.idle_role(view.pair),
    "is_surely_a_sampler": _is_surely_a_sampler,
    "keyed": _is_keyed,
    "lacking": lambda view: _LACKING[view.pair.training.mode == ""],
    "leads_to": _leads_to,
    "loads_adapters": lambda view: view.server is not None and view.server.on("enable-lora"),
    "may_be_another_vllm": lambda view: view.pair.training.open or view.pair.job.kind == "JobSet",
    "meant": lambda view: view.pair.training.found is not None and view.pair.is_meant,
    "meant_or_asked": lambda view: view.pair.is_meant or view.pair.is_asked,
    "method": lambda view: view.pair.training.found.method if view.pair.training.found else None,
    "mode": lambda view: _known(view.pair.training.mode),
    "mode_hidden": lambda view: view.pair.training.mode is None,
    "names": lambda view: ", ".join(each.name for each in (view.pair.sampler, *view.pair.rivals)),
    "needs_url": _needs_url,
    "never_ends": _never_ends,
    "node": lambda view: view.pair.node.job_name,
    "obstacle": _obstacle,
    "of_trl": lambda view: view.pair.sampler.trls,
    "operator_all": lambda view: f"{{operator: All, targetReplicatedJobs: [{view.pair.node.job_name}]}}",
    "output": lambda view: view.adapters.output if view.adapters else None,
    "output_apart": _output_apart,
    "pods": lambda view: view.pair.sampler.pods,
    "port": lambda view: _known(view.pair.port),
    "rank_cure": _rank_cure,
    "readable": lambda view: view.pair.training.found is not None,
    "relative_folder": lambda view: next((each for each in _folders(view) if each and each[0] not in "/$"), None),
    "restarts": _restarts,
    "rivals": lambda view: len(view.pair.rivals),
    "sampler_open": lambda view: view.server is not None and view.server.open,
    "sends_files": lambda view: sent_weights.sends_files(view.pair),
    "served": lambda view: view.server.model if view.server else None,
    "served_certainly": lambda view: view.pair.sampler.server is not None and view.pair.sampler.server.certain,
    "served_dtype": _served_dtype,
    "served_model": _served_model,
    "served_revision": _served_revision,
    "served_words": lambda view: view.server is not None and bool(view.server.parsed.positionals),
    "shared_claim": lambda view: role_resources.shared_claim(view.pair),
    "shared_profile": lambda view: role_resources.shared_profile(view.pair),
    "spread": lambda view: view.pair.sampler.server is not None and view.pair.sampler.server.spread,
    "trained_dtype": lambda view: _known(view.pair.training.dtype),
    "trained_revision": _trained_revision,
    "training_open": lambda view: view.pair.training.open,
    "transfer_config": lambda view: sent_weights.config(view.pair),
    "transfer_written": lambda view: view.server is not None and view.server.has(sent_weights.FLAG),
    "url_port": lambda view: _known(_port_of(_url(view.pair)[1])),
    "waits": lambda view: pair_additions.waits(view.pair),
}
