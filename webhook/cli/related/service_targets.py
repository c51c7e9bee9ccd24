"""Routes: whether a Service of the input sends to a port at which the server of its pods listens.

A number in `targetPort` needs no `containerPort`, and goes to whoever listens there; a name goes to the container that
gives it (kubernetes `pkg/apis/core/types.go` ServicePort, `pkg/api/pod/util.go` FindPort).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from muster.strategies.documents import decoding, model
from muster.strategies.documents.findings import Finding, warning
from muster.strategies.frameworks.vllm import health_probes, vllm_servers
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.launches import readings
from muster.webhook.cli.related import held_containers
from muster.webhook.cli.related.held_containers import Held
from muster.webhook.cli.related.related_documents import Inputs, items, member, name_of

__all__ = ["check"]

_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_JOB_NAME = "jobset.sigs.k8s.io/replicatedjob-name"


def check(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report a server of vLLM that a Service of its pods does not reach, where it is all that the pods start."""
    every = list(held_containers.containers(job))
    for held in every:
        beside = [each for each in every if each.template is held.template]
        port = _listens(held) if len(beside) == 1 else None
        if port is None:
            continue
        for service in inputs.of_kind("Service", job.namespace):
            targets = _targets(service.document, held, job)
            known = _words(held)
            if targets and port not in targets and not any(str(each) in word for each in targets for word in known):
                sent = " and ".join(map(str, targets[:3]))
                message = (
                    f"the server listens at {port}, and the Service {name_of(service.document)} of {service.origin} "
                    f"sends to {sent}, where nobody answers; make them the same"
                )
                yield held.report(warning, "command", port, message, "core/service-port")


def _listens(held: Held) -> int | None:
    """Return the port of the only server that a container starts, None where it is not known."""
    launch = readings.read(held.command).only if held.command else None
    env = {each.name: each.literal for each in decoding.read({"env": held.env}, model.Container).env}
    server = vllm_servers.of_launch(launch, env) if launch is not None else None
    return health_probes.port(server) if server is not None and server.certain and not server.open else None


def _targets(service: Mapping[str, Any], held: Held, job: Job) -> Sequence[int]:
    """Return the numbers of the ports to which a Service sends, () where it selects other pods, or has a name."""
    spec = member(service, "spec")
    selector, ports = member(spec, "selector"), items(spec, "ports")
    if not selector or not selector.items() <= _labels(held.template, job).items():
        return ()
    found = [each.get("targetPort", each.get("port")) for each in ports]
    return [each for each in found if type(each) is int] if all(type(each) is int for each in found) else ()


def _labels(template: Template, job: Job) -> Mapping[str, Any]:
    own = {_JOBSET_NAME: job.name, _JOB_NAME: template.raw.get("name")}
    return {**next(template.metadata("labels"))[0], **own}


def _words(held: Held) -> Sequence[str]:
    """Return what else may name a port at which the pod listens."""
    return [*held.command, *(str(each.get("value") or "") for each in held.env)]
