"""Collisions: objects of one input that want the same name.

Sources: trainer `pkg/apis/trainer/v1alpha1/trainjob_types.go` (self == oldSelf) and
`pkg/runtime/framework/plugins/jobset` (the JobSet has the name of its TrainJob); jobset
`pkg/controllers/jobset_controller.go` createHeadlessSvcIfNecessary (a Service of the name of the subdomain is taken as
it is); kubernetes `pkg/kubelet/envvars/envvars.go` (variables of Services).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from muster.strategies.checks import volume_checks
from muster.strategies.documents import decoding, model, trainjobs
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.jobs import templates
from muster.strategies.jobs.jobs import Job
from muster.strategies.jobs.templates import Template
from muster.strategies.launches import launches, readings
from muster.webhook.cli.related import held_containers
from muster.webhook.cli.related.related_documents import Inputs, Service
from muster.webhook.cluster import readers
from muster.webhook.kubeyaml.sources import Source

__all__ = ["check"]

_MUTABLE = ("suspend", "runtimePatches")
_JOBSET_NAME = "jobset.sigs.k8s.io/jobset-name"
_OF_CONTROLLERS = ("jobset.sigs.k8s.io/", "batch.kubernetes.io/", "trainer.kubeflow.org/", "kueue.x-k8s.io/")
_PORTS = {"vllm": "VLLM_PORT", "mlflow": "MLFLOW_PORT", "jupyter": "JUPYTER_PORT", "jupyter-lab": "JUPYTER_PORT"}
"""Variables that a program reads as the number of its port, and that a Service of its first word makes an URL.

vllm `envs.py` get_vllm_port; mlflow 3 `cli.py` server; jupyter_server 2 `serverapp.py` port_env.
"""
_Job = model.TrainJob | model.JobSet


def check(job: Job, source: Source, inputs: Inputs, cluster: readers.ClusterReader) -> Iterator[Finding]:
    """Report what else of the input has a name that the job, or what is made of it, needs for itself.

    Args:
        job: the job as it will be stored.
        source: the job as it was written.
        inputs: all documents of the input.
        cluster: where runtimes are read.
    """
    twin = _twin(job, source, inputs)
    if twin is not None:
        yield twin
    else:
        yield from _subdomain(job, source, inputs, cluster)
    if inputs.has(job.namespace, Service):
        yield from _links(job, inputs)


def _twin(job: Job, source: Source, inputs: Inputs) -> Finding | None:
    """Report another job of the name in the same file."""
    kind = model.TrainJob if job.kind == "TrainJob" else model.JobSet
    for other in _near(inputs, kind, job, source):
        if other.origin == source.origin:
            break
        changed = _changed(other, source)
        if changed:
            message = (
                f"{other.origin} is a {job.kind} of this name too, so this one is an update of it, and {changed} "
                "cannot be changed; give it a name of its own"
            )
            return error("metadata.name", job.name, message, rule="core/same-name")
    for other in _near(inputs, model.JobSet, job, source) if job.kind == "TrainJob" else ():
        if not _is_owned(other):
            message = f"Trainer makes a JobSet of this name, and {other.origin} is another one; rename one of them"
            return error("metadata.name", job.name, message, rule="core/same-name")
    return None


def _near(inputs: Inputs, kind: type[_Job], job: Job, source: Source) -> Iterator[Source]:
    """Yield the documents of a kind that have the name and the namespace of a job, and stand in its file."""
    for each in inputs.named(kind, job.namespace, job.name or ""):
        if each.origin.file == source.origin.file and inputs.namespace_of(each.source) == job.namespace:
            yield each.source


class _Whole(Struct, frozen=True):
    """A job whose members are compared, and not read."""

    spec: model.Anything = {}


def _changed(before: Source, after: Source) -> str:
    """Return the first member that an update may not change, and this one does; "" where there is none."""
    old, new = (decoding.read(each.document, _Whole).spec for each in (before, after))
    return next(
        (f"spec.{each}" for each in {**old, **new} if each not in _MUTABLE and old.get(each) != new.get(each)), ""
    )


def _subdomain(job: Job, source: Source, inputs: Inputs, cluster: readers.ClusterReader) -> Iterator[Finding]:
    """Report a Service that JobSet would take for its own: one of the input, or that of another job."""
    name = _service_name(job.jobset.network, job.name or "")
    replicated = templates.list_templates(job)
    if not name or _is_owned(source) or sum(volume_checks.count(job, each) for each in replicated) <= 1:
        return
    field, value = "metadata.name", name
    if job.jobset.network.subdomain:
        field = "spec.network.subdomain" if job.kind == "JobSet" else "spec.runtimeRef.name"
        value = name if job.trainjob is None else job.trainjob.spec.runtime_ref.name
    for service in inputs.named(Service, job.namespace, name):
        why = _unfit(service.value, job, replicated)
        if why:
            message = (
                f"JobSet takes the Service {name} of {service.origin} for the names of its pods, and it {why}, so the "
                "pods do not find each other; rename the Service, or remove it"
            )
            yield warning(field, value, message, rule="core/service-name")
    first = _subdomains(inputs, cluster).get((source.origin.file, job.namespace, name))
    if first is not None and first.origin != source.origin:
        message = (
            f"the {first.kind} of {first.origin} has the subdomain {name} too, and its Service selects its own pods "
            "alone, so the pods of this job do not find each other; write another subdomain"
        )
        yield warning(field, value, message, rule="core/service-name")


def _subdomains(inputs: Inputs, cluster: readers.ClusterReader) -> Mapping[tuple[str, str, str], Source]:
    """Return the first job of each file that makes a Service, by file, namespace and name of the Service."""
    if inputs.services is None:
        kept: dict[tuple[str, str, str], Source] = {}
        for source in inputs.sources:
            if source.kind in ("TrainJob", "JobSet") and not _is_owned(source):
                namespace = inputs.namespace_of(source)
                name = _service_name(_network(source, namespace, cluster), source.metadata.name)
                kept.setdefault((source.origin.file, namespace, name), source)
        inputs.services = kept
    return inputs.services


def _service_name(network: model.Network, job: str) -> str:
    """Return the name of the Service that JobSet makes for a job, "" for none."""
    return "" if network.enable_dns_hostnames is False else network.subdomain or job


def _network(source: Source, namespace: str, cluster: readers.ClusterReader) -> model.Network:
    if source.kind == "JobSet":
        return decoding.read(source.document, model.JobSet).spec.network
    kind, name = trainjobs.runtime_ref(source.document)
    known = kind in trainjobs.RUNTIME_KINDS and name
    found = cluster.get(readers.Ref(kind, namespace if kind == "TrainingRuntime" else "", name)) if known else None
    return model.Network() if found is None else decoding.read(found, model.Runtime).spec.template.spec.network


def _is_owned(source: Source) -> bool:
    """Whether a JobSet is one that Trainer made."""
    return any(each.kind == "TrainJob" for each in source.metadata.owner_references)


def _unfit(service: Service, job: Job, replicated: Sequence[Template]) -> str:
    """Return why the names of a job's pods do not resolve by a Service, as a clause; "" where they may."""
    selector = service.selector
    if service.cluster_ip != "None":
        return "is not headless (clusterIP: None)"
    if not selector:
        return "selects no pods"
    own = {key: value for key, value in selector.items() if key == _JOBSET_NAME or not key.startswith(_OF_CONTROLLERS)}
    for template in replicated:
        labels = {_JOBSET_NAME: job.name, **next(template.metadata("labels"))[0]}
        if own.items() <= labels.items():
            return ""
    return "selects other pods"


def _links(job: Job, inputs: Inputs) -> Iterator[Finding]:
    """Report a Service whose variable the program of a container reads as a number."""
    for held in held_containers.containers(job):
        variable = _PORTS.get(_program(held.command), "") if held.template.pod.enable_service_links is not False else ""
        if not variable or any(each.name == variable for each in held.env):
            continue
        name = variable.removesuffix("_PORT").lower()
        for service in inputs.named(Service, job.namespace, name):
            spec = service.value
            if spec.cluster_ip != "None" and spec.type != "ExternalName":
                message = (
                    f"the Service {name} of {service.origin} makes the variable {variable}=tcp://..., which this "
                    "program reads as a number; write enableServiceLinks: false into the pod, or rename the Service"
                )
                yield held.report(error, "command", held.name, message, "core/service-variable")


def _program(words: Sequence[str]) -> str:
    """Return the last program that a command line starts."""
    launch = readings.read(words).visible if words else None
    return launches.program(launch.head[0]) if launch is not None and launch.head else ""
