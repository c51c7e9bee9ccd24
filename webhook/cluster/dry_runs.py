"""Dry runs: what an API server says of the Jobs and pods that will be made for a JobSet, in its own words.

Nothing is stored. What only a controller would be told is asked before: a Job and a pod of each replicated job, as the
JobSet would have them. So Pod Security, quotas, LimitRanges, service accounts, the validation of Kubernetes and the
webhooks of others speak for themselves. Muster's own webhooks see neither Jobs nor pods, so they are not asked again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from msgspec import Struct

from muster.kube import calls, transports
from muster.strategies.documents import decoding, model
from muster.strategies.documents.findings import Finding, error, warning
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import ml_policies
from muster.webhook.cluster import kinds, served

__all__ = ["RULE", "Answer", "Question", "ask", "findings", "name_of", "questions"]

RULE = "core/dry-run"
_LONGEST, _SHOWN = 4 * 1024 * 1024, 1_000  # bytes of an answer, characters of a refusal
_LONGEST_NAME = 40  # characters before those that the API server adds
_OWN_RIGHTS = re.compile(r'cannot create resource "[a-z]+"')
_OF_CALLERS = re.compile(r'admission webhook "[a-z.-]*\.muster\.dev" denied|does not support dry run')
_STATUS = re.compile(r"^HTTP \d+: ")
_NOW = "exceeded quota: "
"""A quota counts what there is now: other jobs may end before this one begins."""


class Question(NamedTuple):
    """An object that would be created.

    Attributes:
        job: the replicated job that it is of.
        kind: Job or Pod.
        document: the object.
    """

    job: str
    kind: served.Kind
    document: Mapping[str, Any]


class Answer(Struct, frozen=True):
    """What an API server says of an object.

    Attributes:
        refusal: why it is not created; "" where it is, or was not asked.
        trouble: why nothing is known; "" where something is.
        forbidden: whether nothing is known because the caller may not create such objects.
        invalid: whether the object itself is wrong, whatever else there is in the cluster.
    """

    refusal: str = ""
    trouble: str = ""
    forbidden: bool = False
    invalid: bool = False

    @property
    def lasts(self) -> bool:
        """Whether the same question has the same answer for a while."""
        return not self.trouble and (self.invalid or not self.refusal)


def questions(
    jobset: Mapping[str, Any], namespace: str, runtime: Runtime | None = None, owner: str = ""
) -> Iterator[Question]:
    """Yield a Job and a pod of each replicated job of a JobSet, with empty volumes for those that controllers add.

    Args:
        jobset: as it will be stored; any shape.
        namespace: where it is.
        runtime: of the TrainJob for which it was predicted.
        owner: name of that TrainJob.
    """
    spec = decoding.member(jobset, "spec")
    policies = (
        each for policy in decoding.items(spec, "volumeClaimPolicies") for each in decoding.items(policy, "templates")
    )
    claims = {str(decoding.member(each, "metadata").get("name")) for each in policies}
    for job in decoding.items(spec, "replicatedJobs"):
        name, added = str(job.get("name")), set(claims)
        if runtime is not None:
            added |= ml_policies.volumes(runtime.policy, decoding.read(job, model.ReplicatedJob), owner)
        pod = _pod(decoding.member(job, "template", "spec", "template", "spec"), added)
        template = decoding.member(job, "template", "spec", "template")
        called = f"{name_of(jobset)}-{name}"[:_LONGEST_NAME] + "-"
        inner = _metadata(template, called, namespace)
        outer = _metadata(decoding.member(job, "template"), called, namespace)
        made = {**decoding.member(job, "template", "spec"), "template": {**template, "spec": pod}}
        made.setdefault("completionMode", "Indexed")  # JobSet's default
        yield Question(name, kinds.JOB, {"apiVersion": "batch/v1", "kind": "Job", "metadata": outer, "spec": made})
        yield Question(name, kinds.POD, {"apiVersion": "v1", "kind": "Pod", "metadata": inner, "spec": pod})


def _pod(spec: Mapping[str, Any], added: AbstractSet[str]) -> Mapping[str, Any]:
    held = {str(each.get("name")) for each in decoding.items(spec, "volumes")}
    made = [{"name": name, "emptyDir": {}} for name in sorted(added - held)]
    volumes = [*decoding.sequence(spec.get("volumes")), *made]
    return {**spec, "restartPolicy": spec.get("restartPolicy") or "OnFailure", "volumes": volumes}


def _metadata(template: Mapping[str, Any], called: str, namespace: str) -> Mapping[str, Any]:
    written = {key: decoding.member(template, "metadata", key) for key in ("labels", "annotations")}
    return {**written, "generateName": called, "namespace": namespace}


async def ask(
    sender: transports.Sender, kind: served.Kind, namespace: str, document: Mapping[str, Any], deadline: float
) -> Answer:
    """Return what an API server says of an object that is not stored; no answer is an answer too.

    Args:
        sender: a connection to it; not closed here.
        kind: of the object.
        namespace: where it would be created.
        document: the object.
        deadline: seconds.
    """
    what = f"dry run of a {kind.served}"
    try:
        call = calls.Call("POST", kind.path(namespace), {"dryRun": "All"}, document)
        await calls.document(sender, call, deadline, _LONGEST, what, _SHOWN)
    except transports.RefusedError as refused:
        said = _STATUS.sub("", str(refused))
        if refused.status == 403 and _OWN_RIGHTS.search(said):
            return Answer(trouble=f"a {kind.served} may not be created in {namespace}", forbidden=True)
        if refused.status in (400, 403, 422) and not _OF_CALLERS.search(said):
            return Answer(said, invalid=refused.status != 403)
        if refused.status not in (400, 403, 404, 409, 422):
            return Answer(trouble=f"{what} in {namespace} failed: {refused}")
        return Answer(invalid=True)
    except transports.TransportError as failed:
        return Answer(trouble=f"{what} in {namespace} was not answered: {failed}")
    return Answer()


def findings(answers: Sequence[tuple[Question, Answer]], kind: str) -> Iterator[Finding]:
    """Yield what is refused; of a Job and its pod that are both invalid, what is said of the Job.

    Args:
        answers: in the order of `questions`.
        kind: TrainJob or JobSet.
    """
    field = "spec.replicatedJobs" if kind == "JobSet" else "spec.runtimeRef.name"
    wrong = {question.job for question, answer in answers if question.kind is kinds.JOB and answer.refusal}
    for question, answer in answers:
        if not answer.refusal or (question.kind is kinds.POD and answer.invalid and question.job in wrong):
            continue
        report = warning if _NOW in answer.refusal else error
        message = f"no {question.kind.served} of this replicated job can be made: {answer.refusal}"
        yield report(field, question.job, message, rule=RULE)


def name_of(document: Mapping[str, Any]) -> str:
    """Return the name of an object, or the beginning of the one that it will get."""
    metadata = decoding.member(document, "metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "unnamed")
