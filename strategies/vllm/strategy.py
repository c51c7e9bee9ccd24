"""The vllm strategy: `vllm serve` on all claimed GPUs, reachable, probed, with the features its role asks for.

A vLLM server is usually a JobSet of its own (a sampler beside a trainer) that carries the framework label itself.
What a user wrote stands; flags are only added. Features are asked for by the annotation `muster.dev/vllm-features`:
`sleep` (give GPU memory back between batches) and `lora` (load adapters at run time), each a flag and an env.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from strategies import names, registry, sites, topologies
from strategies.changes import Changes
from strategies.documents import pods
from strategies.findings import Finding, error, warning
from strategies.jobs import Job
from strategies.launches import Launcher
from strategies.paths import Absent
from strategies.vllm import flags, probes

__all__ = ["VLLMStrategy"]

_PORT = 8000
_FEATURES = {
    "sleep": ("--enable-sleep-mode", "VLLM_SERVER_DEV_MODE", "1"),
    "lora": ("--enable-lora", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True"),
}
_MODEL_PATH = "/workspace/model"


@registry.strategy
class VLLMStrategy:
    """Serves `trainer.kubeflow.org/framework: vllm`."""

    framework = "vllm"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Complete `vllm serve`: host, port, tensor parallel size, model path and feature flags, each only if missing."""
        site = sites.of(job)
        if site is None or job.owner is not None:
            return
        words = _serve_words(site)
        if words is None:
            message = "this program is yours and was not changed; only probes and env were added"
            changes.report(warning(f"{site.place}.command", " ".join(site.argv[:3]), message, rule="vllm/not-enforced"))
            return
        added = list(_missing(job, flags.read(words)))
        command = site.command or ("vllm", "serve")
        if added or not site.command:
            reason = (
                "vllm serve " + "; ".join(reason for _, reason in added)
                if added
                else "the image's entrypoint, written out"
            )
            new = [word for flag, _ in added for word in flag]
            args, tail = ((*site.args, *new), ()) if site.args or not site.command else ((), new)
            site.write(changes, (*command, *tail), args, rule="vllm/serve", reason=reason)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add probes and the env of the features; servers of several pods are independent and meet nowhere."""
        place = job.container
        if job.kind != "JobSet" or place is None:
            return
        site = sites.of(job)
        words = _serve_words(site) if site else None
        if words is None:
            return
        serve = flags.read(words)
        port = int(serve.values.get("port", "")) if serve.values.get("port", "").isdecimal() else _PORT
        for name in probes.PROBES:
            if isinstance(changes.get(*place.path, name), Absent):
                reason = f"/health on port {port} says when the server may get traffic and when it is stuck"
                changes.set((*place.path, name), probes.probe(name, port), rule="vllm/probes", reason=reason)
        for feature in _asked(job):
            flag, env, value = _FEATURES[feature]
            if pods.find_env(place.container.get("env"), env) is None:
                reason = f"{flag} needs it; the feature {feature} was asked for"
                changes.append((*place.path, "env"), {"name": env, "value": value}, rule="vllm/features", reason=reason)

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add no claims; tensor parallelism above already follows the devices that the pod asks for."""

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check model, parallel sizes against devices, and the features against both."""
        site = sites.of(job)
        if site is None or job.owner is not None:
            return
        yield from _feature_findings(job)
        words = _serve_words(site)
        if words is not None:
            yield from _serve_findings(job, site, flags.read(words))


def _serve_words(site: sites.Site) -> tuple[str, ...] | None:
    """Return the words after `vllm serve`, None for a program that is not it."""
    launch = site.launch
    if not site.command:
        return site.args
    if launch.launcher is Launcher.VLLM and launch.target == "serve":
        return launch.rest
    if launch.launcher is Launcher.PYTHON and launch.target == "vllm.entrypoints.openai.api_server":
        return launch.rest
    return None


def _missing(job: Job, serve: flags.Serve) -> Iterator[tuple[tuple[str, ...], str]]:
    if serve.model is None and _has_model_initializer(job):
        yield ("--model", _MODEL_PATH), "the model initializer puts the model there"
    if not serve.has("host"):
        yield ("--host", "0.0.0.0"), "reachable from other pods"  # noqa: S104  # a pod has no other way to be reached
    if not serve.has("port"):
        yield ("--port", str(_PORT)), "a known port for probes and the Service"
    size = _tensor_parallel_size(job, serve)
    if size is not None and size > 1 and not serve.has("tensor-parallel-size"):
        yield ("--tensor-parallel-size", str(size)), f"all {_devices(job)} claimed GPUs are used"
    for feature in _asked(job):
        flag = _FEATURES[feature][0]
        if not serve.has(flag.lstrip("-")):
            yield (flag,), f"the feature {feature} was asked for"


def _devices(job: Job) -> int | None:
    return topologies.of(job).devices.count


def _tensor_parallel_size(job: Job, serve: flags.Serve) -> int | None:
    count = _devices(job)
    others = serve.number("pipeline-parallel-size") * serve.number("data-parallel-size")
    return count // others if count and count % others == 0 else None


def _asked(job: Job) -> list[str]:
    found = job.annotation(names.VLLM_FEATURES_ANNOTATION)
    words = [word.strip() for word in found[0].split(",")] if found else []
    return [word for word in dict.fromkeys(words) if word in _FEATURES]


def _has_model_initializer(job: Job) -> bool:
    document, path = (job.document, ("spec",)) if job.kind == "JobSet" else _template(job)
    steps = (pods.labels(place.job).get(names.ANCESTOR_LABEL) for place in pods.places(document, path))
    return "model-initializer" in steps


def _template(job: Job) -> tuple[pods.Document, tuple[str, ...]]:
    return (job.runtime.document if job.runtime else {}), ("spec", "template", "spec")


def _feature_findings(job: Job) -> Iterator[Finding]:
    found = job.annotation(names.VLLM_FEATURES_ANNOTATION)
    field = f"metadata.annotations[{names.VLLM_FEATURES_ANNOTATION}]"
    for word in found[0].split(",") if found else ():
        if word.strip() not in _FEATURES:
            message = f"{word.strip()!r} is no feature of ours; known are {', '.join(sorted(_FEATURES))}"
            yield error(field, found[0] if found else None, message, rule="vllm/features")
    if "sleep" in _asked(job) and topologies.of(job).on_cpu:
        yield error(
            field, found[0] if found else None, "sleep needs a GPU; vLLM refuses it on CPU", rule="vllm/features"
        )


def _serve_findings(job: Job, site: sites.Site, serve: flags.Serve) -> Iterator[Finding]:
    if serve.model is None and not _has_model_initializer(job):
        message = "no model is named; write it as the first argument or with --model"
        yield error(f"{site.place}.args", None, message, rule="vllm/model")
    count = _devices(job)
    wanted = 1
    for flag in ("tensor-parallel-size", "pipeline-parallel-size", "data-parallel-size"):
        wanted *= serve.number(flag)
    if count and wanted > count:
        message = (
            f"asks for {wanted} GPUs (tensor x pipeline x data parallel) and the pod claims {count}; lower one of them"
        )
        yield error(f"{site.place}.args", wanted, message, rule="vllm/parallel-size")
    elif count and serve.has("tensor-parallel-size") and wanted < count:
        message = f"uses {wanted} of the {count} GPUs that the pod claims"
        yield warning(f"{site.place}.args", wanted, message, rule="vllm/parallel-size")
