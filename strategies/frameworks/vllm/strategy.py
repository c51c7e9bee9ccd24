"""The vllm strategy: `vllm serve` on all GPUs of its pod, reachable, with probes and the features that were asked for.

A vLLM server is usually a JobSet of its own (a sampler beside a trainer) that carries the framework label itself.
What a user wrote stays; flags are only added. The annotation `muster.dev/vllm-features` asks for features: `sleep`
(free GPU memory between batches) and `lora` (load adapters at run time), each a flag and an env variable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

from strategies.changes.changes import Changes
from strategies.claims import additions
from strategies.documents import names, paths, pods
from strategies.documents.findings import Finding, error, warning
from strategies.documents.paths import Absent
from strategies.frameworks.vllm import flags
from strategies.jobs.jobs import Job
from strategies.launches import sites, topologies
from strategies.launches.launches import Launch, Launcher
from strategies.plugins import registry

__all__ = ["VLLMStrategy", "probe"]

_PORT = 8000
_FEATURES = {
    "sleep": ("--enable-sleep-mode", "VLLM_SERVER_DEV_MODE", "1"),
    "lora": ("--enable-lora", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True"),
}
_MODEL_PATH = "/workspace/model"
_PROBES = {
    "startupProbe": {"periodSeconds": 10, "failureThreshold": 180},  # loading weights takes minutes
    "readinessProbe": {"periodSeconds": 5, "failureThreshold": 3},
    "livenessProbe": {"periodSeconds": 15, "failureThreshold": 4},
}
_LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


@registry.strategy
class VLLMStrategy:
    """Serves `trainer.kubeflow.org/framework: vllm`."""

    framework = "vllm"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Complete `vllm serve`: host, port, tensor parallel size, model path and features, each only if missing."""
        site = sites.find_site(job)
        if site is None or job.owner is not None:
            return
        words = _serve_words(site)
        if words is None:
            message = "this program is not vllm serve, so it was not changed and gets neither flags nor probes"
            changes.report(warning(f"{site.place}.command", " ".join(site.argv[:3]), message, rule="vllm/not-enforced"))
            return
        added = list(_missing(job, flags.read(words)))
        implied = ("vllm",) if site.args[:1] == ("serve",) else ("vllm", "serve")
        command = site.command or (() if _is_serve(site.launch) else implied)
        reasons = "; ".join(reason for _, reason in added)
        reason = (
            f"vllm serve is completed so that {reasons}"
            if added
            else "vllm serve, the image's entrypoint, is written out"
        )
        new = [word for flag, _ in added for word in flag]
        site.write(changes, command, (*site.args, *new), rule="vllm/serve", reason=reason)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add probes and the env of the features; the servers of several pods are independent and do not meet."""
        place, site = job.container, sites.find_site(job)
        words = _serve_words(site) if site else None
        if job.kind != "JobSet" or place is None or words is None:
            return
        serve = flags.read(words)
        port, tls = _port(serve, place.container), serve.has("ssl-certfile") or serve.has("ssl-keyfile")
        for name in _PROBES if port is not None else ():
            if port is not None and isinstance(changes.get(*place.path, name), Absent):
                reason = f"/health on port {port} tells when the server is ready for traffic and when it is stuck"
                changes.set((*place.path, name), probe(name, port, tls=tls), rule="vllm/probes", reason=reason)
        for feature in _asked(job):
            _enable(changes, place, feature)

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add the claims that were asked for; tensor parallelism above already follows them."""
        additions.enforce(job, changes, self.framework)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check the features, the model, and the parallel sizes against the devices."""
        site = sites.find_site(job)
        if site is None or job.owner is not None:
            return
        yield from _feature_findings(job)
        words = _serve_words(site)
        if words is not None:
            yield from _serve_findings(job, site, flags.read(words))


def probe(name: str, port: int, *, tls: bool) -> dict[str, Any]:
    """Return the probe called `name` on `port`; `/health` answers 200 once the engine runs, also while it sleeps."""
    get = {"path": "/health", "port": port, **({"scheme": "HTTPS"} if tls else {})}
    return {"httpGet": get, "timeoutSeconds": 5, **_PROBES[name]}


def _serve_words(site: sites.Site) -> tuple[str, ...] | None:
    """Return the words after `vllm serve`, None for another program."""
    if _is_serve(site.launch):
        return site.launch.rest
    if site.command:
        return None
    return site.args[1:] if site.args[:1] == ("serve",) else site.args


def _is_serve(launch: Launch) -> bool:
    if launch.launcher is Launcher.VLLM:
        return launch.target == "serve"
    return launch.module and launch.target == "vllm.entrypoints.openai.api_server"


def _port(serve: flags.Serve, container: pods.Container) -> int | None:
    """Return the port on which the kubelet can ask for `/health`, None where it cannot or the port is not known."""
    if serve.open or serve.spread or serve.has("uds") or serve.values.get("host") in _LOOPBACK:
        return None
    text = serve.values.get("port", str(_PORT))
    if text.startswith("$(") and text.endswith(")"):
        text = pods.env_value(container.get("env"), text[2:-1]) or ""
    return int(text) if text.isdecimal() else None


def _enable(changes: Changes, place: pods.Place, feature: str) -> None:
    flag, env, value = _FEATURES[feature]
    found = pods.find_env(place.container.get("env"), env)
    if found is None:
        reason = f"the feature {feature} was asked for, and {flag} needs this variable"
        changes.append((*place.path, "env"), {"name": env, "value": value}, rule="vllm/features", reason=reason)
    elif found.get("value") != value:
        where = f"{paths.field(changes.document, place.path)}.env[{env}]"
        message = f"kept as the job sets it; the feature {feature} needs {value!r}"
        changes.report(warning(where, found.get("value"), message, rule="vllm/features"))


def _missing(job: Job, serve: flags.Serve) -> Iterator[tuple[tuple[str, ...], str]]:
    if serve.model is None and not serve.open and _has_model_initializer(job):
        yield ("--model", _MODEL_PATH), "it serves the model of the model initializer"
    if not serve.has("host") and not serve.has("uds") and not serve.open:
        yield ("--host", "0.0.0.0"), "other pods can reach it"  # noqa: S104  # other pods reach a pod only this way
    if not serve.has("port") and not serve.has("uds") and not serve.open:
        yield ("--port", str(_PORT)), "probes and the Service know its port"
    size = _tensor_parallel_size(job, serve)
    if size is not None and not serve.has("tensor-parallel-size"):
        yield ("--tensor-parallel-size", str(size)), f"it uses all {_devices(job)} GPUs of the pod"
    for feature in _asked(job):
        flag = _FEATURES[feature][0]
        if not serve.has(flag.lstrip("-")):
            yield (flag,), f"it has the feature {feature} that was asked for"


def _devices(job: Job) -> int | None:
    return topologies.read_topology(job).devices.count


def _tensor_parallel_size(job: Job, serve: flags.Serve) -> int | None:
    """Return a size that uses all devices; None for 1, and for sizes that divide hardly any model's heads."""
    count, others = _devices(job), _product(serve, "pipeline-parallel-size", "data-parallel-size")
    if not count or not others or count % others or serve.open or serve.spread:
        return None
    size = count // others
    return size if size > 1 and size.bit_count() == 1 else None


def _product(serve: flags.Serve, *names_: str) -> int | None:
    """Return the product of flags; None when the value of one of them cannot be seen."""
    sizes = [serve.number(name) for name in names_]
    return None if None in sizes else math.prod(size or 0 for size in sizes)


def _asked(job: Job) -> list[str]:
    found = job.annotation(names.VLLM_FEATURES_ANNOTATION)
    return [word for word in _words(found) if word in _FEATURES]


def _words(found: tuple[str, str] | None) -> list[str]:
    words = [word.strip() for word in found[0].split(",")] if found else []
    return [word for word in dict.fromkeys(words) if word]


def _has_model_initializer(job: Job) -> bool:
    document, path = (job.document, ("spec",)) if job.kind == "JobSet" else _template(job)
    steps = (pods.labels(place.job).get(names.ANCESTOR_LABEL) for place in pods.places(document, path))
    return "model-initializer" in steps


def _template(job: Job) -> tuple[pods.Document, tuple[str, ...]]:
    return (job.runtime.document if job.runtime else {}), ("spec", "template", "spec")


def _feature_findings(job: Job) -> Iterator[Finding]:
    found = job.annotation(names.VLLM_FEATURES_ANNOTATION)
    field, shown = f"metadata.annotations[{names.VLLM_FEATURES_ANNOTATION}]", found[0] if found else None
    for word in _words(found):
        if word not in _FEATURES:
            message = f"{word!r} is not a feature that Muster knows; use {' or '.join(sorted(_FEATURES))}"
            yield error(field, shown, message, rule="vllm/features")
    if "sleep" in _asked(job) and topologies.read_topology(job).on_cpu:
        yield error(
            field,
            shown,
            "sleep needs a GPU, and vLLM refuses it on CPU; ask for a GPU, or remove sleep",
            rule="vllm/features",
        )


def _serve_findings(job: Job, site: sites.Site, serve: flags.Serve) -> Iterator[Finding]:
    if serve.model is None and not serve.open and not _has_model_initializer(job):
        message = "the job names no model, so vLLM would serve its default one; write the model as the first argument"
        yield warning(f"{site.place}.args", None, message, rule="vllm/model")
    sizes = ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size")
    count, wanted = _devices(job), _product(serve, *sizes)
    if not count or wanted is None or serve.open or serve.spread:
        return
    if wanted > count:
        message = (
            f"asks for {wanted} GPUs (tensor x pipeline x data parallel), and the pod has {count}; lower one of them"
        )
        yield error(f"{site.place}.args", wanted, message, rule="vllm/parallel-size")
    elif wanted < count:
        message = f"uses {wanted} of the {count} GPUs of the pod; set --tensor-parallel-size"
        yield warning(f"{site.place}.args", wanted, message, rule="vllm/parallel-size")
