"""Pairs: a training and its sampler, two replicated jobs of one JobSet.

A sampler is recognised by the label `muster.dev/role: sampler` or the framework label `vllm` of its replicated job.
Without a label it is a vLLM server that is called like one, or that serves the model that is trained: a judge or a
reward model beside the training is none. For a TrainJob, the JobSet that Trainer will make is looked at.
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from msgspec import Struct

from muster.strategies.documents import decoding, model, names, pods
from muster.strategies.documents.findings import Finding
from muster.strategies.documents.paths import Path
from muster.strategies.frameworks.samplers import sampled_trainings, sampler_serving
from muster.strategies.frameworks.vllm import serve_arguments
from muster.strategies.jobs.jobs import MOST_TOGETHER, Job, once
from muster.strategies.trainer import predictions

__all__ = ["ENV", "OWN_POD", "Pair", "asking", "find", "is_path", "kept", "last_name", "same_model"]

ENV = "MUSTER_SAMPLER"
"""Variable of the training container: the host name of the sampler's pod."""

OWN_POD = frozenset({"localhost", "127.0.0.1", "0.0.0.0", "::1"})  # noqa: S104  # compared, never listened at
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,252})"
_WORD = r"[a-z]+"
_CALLED = frozenset({"sampler", "samplers", "rollout", "rollouts", "generator", "generators", "actor", "actors"})
_OTHERS = frozenset(
    {"judge", "judges", "reward", "rewards", "rm", "teacher", "verifier", "critic", "grader", "scorer", "evaluation"}
    | {"eval", "evaluator", "embed", "embedder", "embedding", "embeddings", "reference", "ref", "reranker"}
)
"""Words in the names of servers that answer other questions than the training's own."""
_MOST = 16
"""Replicated jobs beside the training that are looked at."""

_Found = TypeVar("_Found")


class Pair(Struct, frozen=True):
    """A training and its sampler.

    Attributes:
        job: the job under admission.
        training: the training.
        sampler: the sampler; of several that may be it, the first.
        rivals: the others that may be it.
        spec: `spec` of the JobSet, or of the one that Trainer will make.
        node: the training container in that JobSet.
    """

    job: Job
    training: sampled_trainings.Training
    sampler: sampler_serving.Serving
    rivals: tuple[sampler_serving.Serving, ...]
    spec: model.JobSetSpec
    node: pods.Place

    @property
    def is_meant(self) -> bool:
        """Whether a label or the name says that it is a sampler, so that one which nobody asks is a mistake."""
        return self.sampler.labelled or bool(_words(self.sampler.name) & _CALLED)

    @property
    def is_used(self) -> bool | None:
        """Whether the training asks the sampler, or will once Muster has written how; None where it cannot be seen."""
        if self.training.asks is None or self.training.mode is None:
            return None
        return self.training.asks_server

    @property
    def is_asked(self) -> bool:
        """Whether the training asks the sampler, or is a program that Muster cannot read beside one that is meant."""
        asked = self.is_used if self.is_used is not None else self.is_meant
        return asked and not self.rivals

    @property
    def host(self) -> str | None:
        """Host name of the sampler's first pod, None where it has none or the job's name is still to be generated."""
        name = self.job.name
        if name is None or not self._has_names:
            return None
        return f"{name}-{self.sampler.name}-0-0.{self.spec.network.subdomain or name}"

    @property
    def is_named(self) -> bool:
        """Whether the sampler's pod will have a host name: by then, the JobSet of a TrainJob has a name."""
        return self._has_names and (self.job.name is not None or self.job.kind == "TrainJob")

    @property
    def _has_names(self) -> bool:
        indexed = self.sampler.place.job.template.spec.completion_mode != "NonIndexed"
        return indexed and self.spec.network.enable_dns_hostnames is not False

    @property
    def is_host_named(self) -> bool:
        """Whether `ENV` will hold the sampler's host name, or one of the author's that may lead to it."""
        written = self.node.container.env_value(ENV)
        if written is None or "$(" in written or (self.host and f"{written}.".startswith(f"{self.host}.")):
            return True
        another = written in OWN_POD or written.startswith(f"{self.job.name}-")
        return re.fullmatch(_HOST, written, flags=re.ASCII) is not None and not another

    @property
    def port(self) -> int | None:
        """Port of the sampler, None where it is known only in the pod."""
        server = self.sampler.server
        if server is None or server.parsed.config is not None:
            return None
        return None if names.is_written((server.text("port") or "")[2:-1]) else server.port

    @property
    def url(self) -> str | None:
        """The URL to write, in which the pod's host name comes from `ENV`; None where it cannot be known."""
        if self.port is None or self.rivals or self.sampler.server is None or not self.is_host_named:
            return None
        tls = self.sampler.server.has("ssl-certfile")
        return f"{'https' if tls else 'http'}://$({ENV}):{self.port}"

    def relayed(self, finding: Finding) -> Finding:
        """Return a finding about a field of the JobSet; on the TrainJob it is one about its runtime."""
        if self.job.kind == "JobSet":
            return finding
        inside = finding.field.removeprefix(f"{self.sampler.site.place}.")
        ours = inside != finding.field
        where = f"replicated job {self.sampler.name}, {inside}" if ours else inside.removeprefix("spec.")
        shown = "" if finding.value is None else f"{finding.value!r}: "
        name = self.job.runtime.name if self.job.runtime else None
        message = f"in this runtime, {where}: {shown}{finding.message}"
        return dataclasses.replace(finding, field="spec.runtimeRef.name", value=name, message=message)


@once
def find(job: Job) -> Pair | None:
    """Return the training of a part with its sampler; None where it has none, or nothing can be known of it."""
    training = sampled_trainings.read(job) if _may_have(job.jobset) else None
    document = _jobset(job) if training is not None else None
    if training is None or document is None:
        return None
    ours = job.kind == "JobSet"
    node = job.container if ours else pods.trainer(document, ("spec",))
    if node is None:
        return None
    spec = job.jobset if ours else decoding.read(document, model.JobSet).spec
    found = _preferred(list(_samplers(job, document, spec, node, training)))
    return Pair(job, training, found[0], tuple(found[1:]), spec, node) if found else None


def asking(pair: Pair) -> Sequence[Pair]:
    """Return each training of the job that asks this sampler, with it, in the order in which Muster completes it."""
    job, path = pair.job, pair.sampler.place.job_path
    if job.kind != "JobSet" or len(job.parts.places) == 1:
        return (pair,) if pair.is_asked else ()
    return kept(job, (asking, path), 0, lambda: _asking(job, path))  # what Muster writes does not change who asks


def _asking(job: Job, path: Path) -> tuple[Pair, ...]:
    views = (job.view(part) for part in range(min(len(job.parts.places), MOST_TOGETHER)))
    every = (pair for pair in map(find, views) if pair is not None)
    return tuple(pair for pair in every if pair.sampler.place.job_path == path and pair.is_asked)


def kept(job: Job, key: object, state: object, make: Callable[[], _Found]) -> _Found:
    """Return what was found for a job, found again where `state` is another one; once for all trainings of a job."""
    found = job.memory.get(key)
    if found is None or found[0] != state:
        found = job.memory[key] = (state, make())
    return cast("_Found", found[1])


def _may_have(spec: model.JobSetSpec) -> bool:
    """Whether a replicated job stands beside the training that is none of Trainer's own."""
    every = spec.replicated_jobs
    return len(every) > 1 and any(names.ANCESTOR_LABEL not in each.labels for each in every)


def _jobset(job: Job) -> Mapping[str, Any] | None:
    if job.kind == "JobSet":
        return job.document
    if job.runtime is None:
        return None
    try:
        return predictions.predict(job.document, job.runtime, job.namespace).jobset
    except predictions.UnpredictableError:
        return None


def _samplers(
    job: Job,
    document: Mapping[str, Any],
    spec: model.JobSetSpec,
    node: pods.Place,
    training: sampled_trainings.Training,
) -> Iterator[sampler_serving.Serving]:
    common = job.common_role[0] if job.common_role else None
    for index in _beside(job, spec, node):
        each = spec.replicated_jobs[index]
        ours = names.ANCESTOR_LABEL in each.labels or sampler_serving.role(each, common) not in (None, "sampler")
        found = _read(job, document, each, index) if each.pod.containers and not ours else None
        if found is not None and found.pods and _is_sampler(found, training):
            yield found


def _beside(job: Job, spec: model.JobSetSpec, node: pods.Place) -> tuple[int, ...]:
    """Return the places of the first replicated jobs that do not train; found once for all parts of a training."""
    together = job.kind == "JobSet" and job.parts.together and bool(job.parts.places)
    trains = {path[-1] for path, _ in job.parts.places} if together else {node.job_path[-1]}
    others = (index for index in range(len(spec.replicated_jobs)) if index not in trains)
    return kept(job, _beside, trains, lambda: tuple(itertools.islice(others, _MOST)))


def _read(
    job: Job, document: Mapping[str, Any], each: model.ReplicatedJob, index: int
) -> sampler_serving.Serving | None:
    """Read a server; that of a JobSet once for all trainers beside it."""
    path: Path = ("spec", "replicatedJobs", index)
    key, state = (sampler_serving.read, path), job.changes.state(path) if job.kind == "JobSet" else job.state
    common = job.common_role[0] if job.common_role else None
    return kept(job, key, state, lambda: sampler_serving.read(document, path, each, job.identify, common))


def _is_sampler(found: sampler_serving.Serving, training: sampled_trainings.Training) -> bool:
    words = _words(found.name)
    if words & _OTHERS and not words & _CALLED:
        return False
    if found.labelled or words & _CALLED:
        return True
    served, trained = found.server.model if found.server else None, training.text("model_name_or_path")
    if served is None or serve_arguments.hidden(served):
        return True
    return trained is not None and same_model(served, trained)


def _preferred(found: Sequence[sampler_serving.Serving]) -> Sequence[sampler_serving.Serving]:
    """Return those of several that labels and names speak for most."""
    tests: Sequence[Callable[[sampler_serving.Serving], object]] = (
        lambda each: _words(each.name) & _CALLED,
        lambda each: each.labelled,
        lambda each: each.server,
    )
    for fits in tests:
        found = [each for each in found if fits(each)] or found
    return found


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(_WORD, name))


def is_path(model: str) -> bool:
    """Whether a model is named by its folder."""
    return model.startswith(("/", "./", "../", "~"))


def same_model(one: str, other: str) -> bool:
    """Whether two names are those of one model: names on the hub differ in case only where they are the same."""
    if is_path(one) or is_path(other):
        return one.rstrip("/") == other.rstrip("/")
    return one.casefold() == other.casefold()


def last_name(model: str) -> str:
    """Return the last part of a model's name or path, to compare."""
    return model.rstrip("/").rpartition("/")[2].casefold()
