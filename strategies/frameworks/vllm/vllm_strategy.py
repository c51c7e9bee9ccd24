"""The vllm strategy: `vllm serve` on all GPUs of its pod, reachable, with probes and the features that were asked for.

A vLLM server is usually a JobSet of its own (a sampler beside a trainer) that carries the framework label itself.
What a user wrote stays; flags are only added. The annotation `muster.dev/vllm-features` asks for features: `sleep`
(free GPU memory between batches) and `lora` (load adapters at run time), each a flag and an env variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec.structs import replace

from muster.strategies.changes.changes import Changes
from muster.strategies.claims import plans
from muster.strategies.documents import model, names, paths, pods, quantities
from muster.strategies.documents.findings import Finding, error, note, warning
from muster.strategies.frameworks.authors import Authors
from muster.strategies.frameworks.vllm import (
    gpu_shares,
    health_probes,
    serve_arguments,
    serve_checks,
    serve_view,
    vllm_flags,
    vllm_servers,
)
from muster.strategies.frameworks.vllm.vllm_servers import Form, Server
from muster.strategies.jobs.jobs import Job, once_for_all
from muster.strategies.launches import (
    capabilities,
    members,
    pod_endings,
    quotes,
    readings,
    shared_memory,
    sites,
    topologies,
)

__all__ = ["VLLMStrategy"]

_FEATURES = {
    "sleep": ("--enable-sleep-mode", "VLLM_SERVER_DEV_MODE", "1"),
    "lora": ("--enable-lora", "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "True"),
}
_MODEL_PATH = "/workspace/model"
_UPSTREAM = ("vllm-openai", "vllm-cpu")
_VERSIONED = r"v?\d+\.\d"


class VLLMStrategy:
    """Serves `trainer.kubeflow.org/framework: vllm`."""

    framework = "vllm"
    version = "1"

    def enforce_command(self, job: Job, changes: Changes) -> None:
        """Complete `vllm serve`: host, port, tensor parallel size, model path and features, each only if missing."""
        site = sites.find_site(job)
        if site is None or job.owner is not None:
            return
        server = vllm_servers.implied(site)
        if server is None or server.form is Form.GRPC:
            changes.report(_unchanged(site))
            return
        if "--" in site.command:
            message = "-- ends the flags of the command, so Muster cannot add any; remove it"
            changes.report(warning(f"{site.place}.command", "--", message, rule="vllm/closed-flags"))
            return
        settled, overruled = _settle(site, job, server)
        if overruled:
            server = vllm_servers.implied(settled) or server
        added = list(_missing(job, server))
        reason = "vllm serve, the image's entrypoint, is written out"
        if added:
            reason = f"vllm serve is completed so that {'; '.join(reason for _, reason in added)}"
        if any(flag[0] == "--api-server-count" for flag, _ in added):
            message = "one API server answers for all replicas, for vLLM loads adapters at run time with one only"
            changes.report(warning(f"{site.place}.args", "--api-server-count 1", message, rule="vllm/features"))
        if overruled:
            shown = ", ".join(name if " " in name else f"--{name}" for name in dict.fromkeys(overruled))
            also = f"; {reason}" if added else ""
            reason = f"the job's own words win over its runtime, which also gives {shown}{also}"
        new = [word for flag, _ in added for word in flag]
        end = settled.args.index("--") if "--" in settled.args else len(settled.args)  # no word behind it is a flag
        args = (*settled.args[:end], *new, *settled.args[end:])
        site.write(changes, vllm_servers.written_command(site), args, rule="vllm/serve", reason=reason)

    def enforce_rendezvous(self, job: Job, changes: Changes) -> None:
        """Add probes and the env of the features; the servers of several pods are independent and do not meet."""
        place, site = job.container, sites.find_site(job)
        server = vllm_servers.implied(site) if site else None
        if job.kind != "JobSet" or place is None or server is None:
            return
        health_probes.add(changes, place.path, server, rule="vllm/probes", ready="the server is ready for traffic")
        for feature in _asked(job):
            if feature != "lora" or _may_update(server):
                _enable(changes, place, feature)

    def enforce_claims(self, job: Job, changes: Changes) -> None:
        """Add the claims that were asked for; tensor parallelism above already follows them."""
        plans.enforce(job, changes, self.framework)

    def validate(self, job: Job) -> Iterable[Finding]:
        """Check the features, the flags, the model, the probes, and the parallel sizes against the devices."""
        yield from members.check(job)
        yield from pod_endings.check(job)
        site = sites.find_site(job)
        if site is None or job.owner is not None:
            return
        found = _servers(site)
        yield from _feature_findings(job, found)
        around = _circumstances(job, site, found)
        for server in found:
            yield from serve_checks.check(server, site, around)
        alike = gpu_shares.alike(found, topologies.pods_of(job))
        for server, flag, message in (*alike, *_numbered(job, found), *_crowded(job, found)):
            shown = f"--{flag} {server.text(flag)}" if server.on(flag) else None
            yield warning(serve_view.ServeView(server, site, around).field(flag), shown, message, rule="vllm/meeting")
        if not site.command and site.args[:2] == ("vllm", "serve") and _image(job)[1].startswith(_UPSTREAM):
            message = (
                "the entrypoint of this image starts the server already; remove the two words, or make them the command"
            )
            yield warning(f"{site.place}.args[0]", "vllm", message, rule="vllm/arguments")
        topology = topologies.read_topology(job)
        used = max((gpu_shares.used(server) or 0 for server in found), default=0)
        yield from shared_memory.judge(job, 0 if topology.on_cpu else used // topologies.pods_of(job))
        idle = topology.devices.idle if len(found) == 1 else 0
        if idle and job.kind == "JobSet":
            message = f"a pod can use one MIG slice, and {idle} would be idle; ask for one, and for more pods"
            yield warning(f"{site.place}.resources", None, message, rule="vllm/parallel-size")
        if job.container is not None and job.kind == "JobSet" and len(found) == 1:
            yield from health_probes.check(found[0], job.container, paths.field(job.document, job.container.path))


def _numbered(job: Job, found: list[Server]) -> Iterator[gpu_shares.Doubt]:
    """Yield what does not fit the pods of the only replicated job, of which each is a node of one engine."""
    place = job.container
    if place is not None and len(job.jobset.replicated_jobs) == 1 and job.kind == "JobSet" and len(found) == 1:
        names = [f"{job.name}-{place.job_name}-{index}-" for index in range(min(place.job.jobs, _MOST))]
        yield from gpu_shares.numbered(found[0], place.job.at_once, names)


_MOST = 100  # Jobs whose names are compared


def _crowded(job: Job, found: list[Server]) -> Iterator[gpu_shares.Doubt]:
    """Yield the server that finds too little memory: of one container, or of several that use one claim."""
    gpus = topologies.read_topology(job).devices.count
    if len(found) > 1 and all(server.certain for server in found):
        yield from gpu_shares.crowded(found, gpus)
    elif len(found) == 1 and job.container is not None and job.kind == "JobSet":
        beside = [server for each in _sharing(job.container) for server in _of_container(each)]
        yield from ((found[0], flag, message) for _, flag, message in gpu_shares.crowded([*found, *beside], gpus))


def _sharing(place: pods.Place) -> Iterator[model.Container]:
    """Yield the other containers of the pod that have the same claims, and so the same devices."""
    own = set(place.container.resources.claims)
    for other in place.pod.containers:
        if own and other is not place.container and set(other.resources.claims) == own:
            yield other


def _of_container(container: model.Container) -> list[Server]:
    env = {each.name: each.literal for each in container.env}
    return [server for server in _started(readings.read(container.argv), env) if server.certain]


def _started(reading: readings.Reading, env: Mapping[str, str | None]) -> list[Server]:
    read = (vllm_servers.of_launch(launch, env) for launch in reading.launches)
    return [server for server in read if server is not None]


def _servers(site: sites.Site) -> list[Server]:
    """Return the servers that a container starts, also inside wrappers and shells."""
    bare = vllm_servers.implied(site)
    return _started(site.reading, site.values) if bare is None else [bare]


def _circumstances(job: Job, site: sites.Site, found: list[Server]) -> serve_view.Circumstances:
    place = job.container if job.kind == "JobSet" else None
    room = shared_memory.room(place) if place else None
    bare = found[0] if not site.command or vllm_servers.starts(site.launch) else None
    return serve_view.Circumstances(
        gpus=topologies.read_topology(job).devices.count,
        maker=topologies.read_topology(job).devices.maker,
        others=job.container is not None and topologies.sees_others(job.container.container),
        own_image=_is_foreign(job),
        initialized=_has_model_initializer(job),
        alone=bare is not None or (len(found) == 1 and site.reading.only is not None),
        authors=Authors(site, job, bare.args) if bare else None,
        generation=capabilities.bound(job),
        pods=topologies.pods_of(job),
        memory=_memory(place),
        shared_memory=room / _GIB if room else None,
    )


def _memory(place: pods.Place | None) -> float | None:
    """Return the memory limit of a container in GiB, None for none."""
    limit = place.container.resources.limits.get("memory") if place else None
    return quantities.count(limit) / _GIB or None


_GIB = 1024**3


def _is_foreign(job: Job) -> bool:
    """Whether the image may hold another vLLM than the one whose flags Muster knows, by its tag or its owner."""
    owner, name, tag = _image(job)
    if name in {"muster-vllm", "muster-rl"} or (name in {"vllm", "rl"} and owner.endswith("muster-dev")):
        return False
    if name.startswith(_UPSTREAM) and re.match(_VERSIONED, tag):
        return not tag.removeprefix("v").startswith(vllm_flags.version())
    return job.brings_image


def _image(job: Job) -> tuple[str, str, str]:
    """Return the owner, the name and the tag of the image."""
    image = job.trainer.image or (job.container.container.image if job.container else "")
    owner, _, rest = image.rpartition("/")
    name, _, tag = rest.partition(":")
    return owner, name, tag


def _settle(site: sites.Site, job: Job, server: Server) -> tuple[sites.Site, list[str]]:
    """Leave out what the runtime's args give against the job's own command, and return what that is."""
    authors = Authors(site, job, server.args)
    if not authors.mixed or not site.own_command or job.kind == "JobSet":
        return site, []
    dropped = list(_overruled(server, authors))
    if not dropped:
        return site, []
    gone = {index for given in dropped for index in range(given.index, given.end)}
    first = len(site.command) - authors.offset
    kept = tuple(word for index, word in enumerate(site.args, first) if index not in gone)
    return replace(site, args=kept), [given.name for given in dropped]


def _overruled(server: Server, authors: Authors) -> Iterator[serve_arguments.Given]:
    for name, every in server.parsed.given.items():
        own = [given for given in every if authors.owns(given.index)]
        if own and name != "middleware":
            yield from (given for given in every if not authors.owns(given.index))
    if server.form is Form.SERVE and server.model is not None:
        words = [index for index, _ in server.parsed.positionals]
        mine = any(authors.owns(index) for index in words)
        yield from (
            serve_arguments.Given("the model", index, index + 1, "")
            for index in words
            if mine and not authors.owns(index)
        )


def _unchanged(site: sites.Site) -> Finding:
    """Say that a command line was left alone; a server behind a wrapper is judged all the same."""
    inside = next((launch for launch in site.reading.launches if vllm_servers.starts(launch)), None)
    message = "this program is not vllm serve, so it was not changed or checked, and gets neither flags nor probes"
    if inside is not None:
        around = inside.through[0] if inside.through else "another program"
        message = f"the server runs inside {around}, so it was not changed and gets neither flags nor probes"
    return note(f"{site.place}.command", quotes.command(site.argv), message, rule="vllm/not-enforced")


def _enable(changes: Changes, place: pods.Place, feature: str) -> None:
    flag, env, value = _FEATURES[feature]
    found = place.container.find_env(env)
    if found is None:
        reason = f"the feature {feature} was asked for, and {flag} needs this variable"
        changes.append((*place.path, "env"), {"name": env, "value": value}, rule="vllm/features", reason=reason)
    elif found.value != value:
        where = f"{paths.field(changes.document, place.path)}.env[{env}]"
        message = f"kept as the job sets it; the feature {feature} needs {value!r}"
        changes.report(warning(where, found.literal, message, rule="vllm/features"))


def _missing(job: Job, server: Server) -> Iterator[tuple[tuple[str, ...], str]]:
    hidden = server.parsed.config is not None
    if server.model is None and not hidden and not server.parsed.positionals and _has_model_initializer(job):
        yield ("--model", _MODEL_PATH), "it serves the model of the model initializer"
    if not server.has("host") and not server.has("uds") and not hidden:
        yield ("--host", "0.0.0.0"), "other pods can reach it"  # noqa: S104  # other pods reach a pod only this way
    if not server.has("port") and not server.has("uds") and not hidden:
        yield ("--port", str(vllm_servers.PORT)), "probes and the Service know its port"
    others = job.container is not None and topologies.sees_others(job.container.container)
    found = topologies.read_topology(job).devices
    count = topologies.visible(found.count, server.env, others=others, maker=found.maker)
    size = gpu_shares.missing(server, count)
    if size is not None:
        yield ("--tensor-parallel-size", str(size)), f"it uses all {count} GPUs of the pod"
    yield from _missing_features(job, server)


def _missing_features(job: Job, server: Server) -> Iterator[tuple[tuple[str, ...], str]]:
    asked = _asked(job)
    for feature in asked:
        flag = _FEATURES[feature][0]
        if not server.has(flag.lstrip("-")):
            yield (flag,), f"it has the feature {feature} that was asked for"
    several = server.api_servers is None or server.api_servers > 1
    if "lora" in asked and several and not server.has("api-server-count") and not server.open:
        yield ("--api-server-count", "1"), "adapters can be loaded while it runs, which vLLM allows with one API server"


def _may_update(server: Server) -> bool:
    """Whether vLLM would start with updates of adapters: with one API server, or where Muster can ask for one."""
    count = server.api_servers if server.on("api-server-count") else 1
    return count is None or count <= 1


def _asked(job: Job) -> list[str]:
    found = job.annotation(names.VLLM_FEATURES_ANNOTATION)
    return [word for word in _words(found) if word in _FEATURES]


def _words(found: tuple[str, str] | None) -> list[str]:
    words = [word.strip() for word in found[0].split(",")] if found else []
    return [word for word in dict.fromkeys(words) if word]


@once_for_all
def _has_model_initializer(job: Job) -> bool:
    return any(each.is_model_initializer and each.pod.containers for each in job.jobset.replicated_jobs)


def _feature_findings(job: Job, found: list[Server]) -> Iterator[Finding]:
    asked = job.annotation(names.VLLM_FEATURES_ANNOTATION)
    field, shown = f"metadata.annotations[{names.VLLM_FEATURES_ANNOTATION}]", asked[0] if asked else None
    for word in _words(asked):
        if word not in _FEATURES:
            message = f"is not a feature that Muster knows; use {' or '.join(sorted(_FEATURES))}"
            yield error(field, word, message, rule="vllm/features")
    if "sleep" in _asked(job) and topologies.read_topology(job).on_cpu:
        message = "sleep needs a GPU, and vLLM refuses it on CPU; ask for a GPU, or remove sleep"
        yield error(field, shown, message, rule="vllm/features")
    if "lora" in _asked(job) and not all(_may_update(server) for server in found):
        message = "vLLM loads adapters at run time with one API server only; set --api-server-count 1, or remove lora"
        yield error(field, shown, message, rule="vllm/features")
