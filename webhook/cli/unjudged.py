"""Unjudged: documents of the input that `check` does not judge.

They are counted and named, so that nobody takes "0 errors" for a word on them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct

from muster.strategies.documents import decoding, model
from muster.webhook.cli import cases, file_findings, problems
from muster.webhook.cli.cases import Case
from muster.webhook.kubeyaml.sources import Origin, Source

__all__ = ["Unjudged", "counted", "find"]

_TRAINING = {
    "kubeflow.org": {"PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob", "MXJob", "Experiment"},
    "optimizer.kubeflow.org": {"OptimizationJob"},
    "ray.io": {"RayJob", "RayCluster"},
    "batch.volcano.sh": {"Job"},
    "workload.codeflare.dev": {"AppWrapper"},
    "sagemaker.services.k8s.aws": {"TrainingJob"},
    "training.kubedl.io": {"PyTorchJob", "TFJob", "XGBoostJob", "MPIJob", "ElasticDLJob"},
    "elastic.pytorch.org": {"ElasticJob"},
    "run.ai": {"TrainingWorkload", "DistributedWorkload"},
}
"""Kinds of other projects in which people train, by their groups."""
_NAMED = {("resource.nvidia.com", "ComputeDomain"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")}
_OURS = {"trainjob", "jobset"}
_UNREAD = "JobSet without a framework label"


class Unjudged(Struct, frozen=True):
    """A document that was not judged.

    Attributes:
        source: the document.
        what: it is, for a count: `PyTorchJob`; "" for a document that has nothing to do with training.
        trains: whether people train in it, so that silence about it could be taken for consent.
    """

    source: Source
    what: str
    trains: bool

    @property
    def origin(self) -> Origin:
        """The place of the document."""
        return self.source.origin

    @property
    def level(self) -> str:
        """The severity with which it is told."""
        return "warning" if self.trains else "note"

    def __str__(self) -> str:
        """`RayJob/llama was not judged: Muster judges TrainJobs, OptimizationJobs, JobSets and runtimes`."""
        if self.what == _UNREAD:
            why = "it has no label of a framework, and Muster does not read its launch; add the label"
        else:
            why = "Muster judges TrainJobs, OptimizationJobs, JobSets and runtimes"
            if _can_migrate(self.source):
                why += "; `muster migrate` writes such jobs as TrainJobs, where Trainer can run them"
        return f"{self.source.title} was not judged: {why}"


def find(sources: Iterable[Source], decided: Iterable[Case]) -> list[Unjudged]:
    """Return what was not judged, in the order of the input.

    Args:
        sources: all documents of the input.
        decided: the cases of those that were judged.
    """
    unread = {id(case.source) for case in decided if _is_unread(case)}
    return list(_found(sources, unread))


def _found(sources: Iterable[Source], unread: set[int]) -> Iterator[Unjudged]:
    for source in sources:
        if id(source) in unread:
            yield Unjudged(source, _UNREAD, file_findings.may_train(source.document))
        elif not cases.is_judged(source):
            kind, group = source.kind, source.group
            trains = kind in _TRAINING.get(group, ()) or kind.lower() in _OURS or _starts_training(source.document)
            yield Unjudged(source, kind if trains or (group, kind) in _NAMED else "", trains)


def _can_migrate(source: Source) -> bool:
    from muster.webhook.cli import migrations  # noqa: PLC0415  # its tables are only for those who have such a job

    return source.group == "kubeflow.org" and source.kind in migrations.SOURCES


def _is_unread(case: Case) -> bool:
    governor = case.mutated.governor
    is_free = case.source.kind == "JobSet" and governor.owner is None and governor.framework is None
    return is_free and not case.misfits and not case.failure and case.mutated.verdict != "skipped"


def _starts_training(document: Mapping[str, object]) -> bool:
    """Whether a Pod, or an object with one template of a pod, starts a launcher that trains."""
    spec = decoding.member(document, "spec")
    for member in ("jobTemplate", "spec", "template", "spec"):
        spec = decoding.mapping(spec.get(member, spec))
    containers = decoding.read(spec, model.PodSpec).containers
    return any(file_findings.of_container(each) not in ("", "vllm") for each in containers)


def counted(found: Iterable[Unjudged]) -> Iterator[str]:
    """Yield `2 documents not judged (2 PyTorchJob)` and `1 other document ignored`, each where there is one."""
    each = list(found)
    named = Counter(one.what for one in each if one.what)
    if named:
        told = ", ".join(f"{count} {what}" for what, count in named.items())
        yield f"{problems.plural(sum(named.values()), 'document')} not judged ({told})"
    ignored = len(each) - sum(named.values())
    if ignored:
        yield f"{problems.plural(ignored, 'other document')} ignored"
