"""Dry runs: what an API server says of a job and of the pods that will be made for it, in its own words.

Nothing is stored. What only a controller would be told, hours later and in no command's output, is asked now: a pod of
each replicated job, as the JobSet would have it, with the rights of whoever runs the command. So Pod Security, quotas,
LimitRanges, service accounts and the webhooks of others speak for themselves.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any

from muster.kube import calls, payloads, transports
from muster.strategies.documents import trainjobs
from muster.strategies.documents.findings import Finding, error
from muster.strategies.trainer import ml_policies
from muster.webhook.audit.redaction import doors
from muster.webhook.cli import jobsets
from muster.webhook.cli.beside.inputs import items, member
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cluster import kinds, readers, served

__all__ = ["DryRuns"]

RULE = "core/dry-run"
_DEADLINE = 10.0  # seconds for one request
_LONGEST, _SHOWN = 4 * 1024 * 1024, 1_000  # bytes of an answer, characters of a refusal
_OWN_RIGHTS = re.compile(r'cannot create resource "[a-z]+"')
_OURS = re.compile(r'admission webhook "[a-z.-]*\.muster\.dev" denied')
_STATUS = re.compile(r"^HTTP \d+: ")
_MAKING = {"TrainJob": kinds.KINDS["TrainJob"], "JobSet": kinds.JOBSET}


class DryRuns:
    """Asks one API server.

    Args:
        sender: a connection to it; not closed here.
        setup: the input.

    Attributes:
        warnings: what could not be asked, each once.
    """

    def __init__(self, sender: transports.Sender, setup: Setup) -> None:
        self.warnings: dict[str, None] = {}
        self._sender = sender
        self._setup = setup

    async def ask(self, case: Case) -> Case:
        """Return a case with what the API server refuses of the job and of its pods."""
        kind = _MAKING.get(case.source.kind)
        if kind is None or case.misfits or case.failure:
            return case
        found: list[Finding] = []
        if not self._needs_files(case):
            refusal = await self._refusal(kind, case.namespace, _created(case.source.document, case.namespace))
            found += [error("metadata.name", _name(case.document), refusal, rule=RULE)] if refusal else []
        follower = case if case.source.kind == "JobSet" else jobsets.follow(case, self._setup)
        for name, pod in _pods(case, follower.document if follower is not None else {}):
            refusal = await self._refusal(kinds.POD, case.namespace, pod)
            if refusal:
                field = "spec.replicatedJobs" if case.source.kind == "JobSet" else "spec.runtimeRef.name"
                found.append(error(field, name, f"no pod of this replicated job can be made: {refusal}", rule=RULE))
        told, _ = doors.findings(tuple(found), (), case.source.document)
        return dataclasses.replace(case, own=(*case.own, *told)) if told else case

    def _needs_files(self, case: Case) -> bool:
        """Whether the cluster lacks what the files have, so that it would refuse the job for that alone."""
        kind, name = trainjobs.runtime_ref(case.document)
        namespace = case.namespace if kind == "TrainingRuntime" else ""
        given = self._setup.cluster.origins
        return readers.Ref(kind, namespace, name) in given or readers.Ref("Namespace", "", case.namespace) in given

    async def _refusal(self, kind: served.Kind, namespace: str, document: Mapping[str, Any]) -> str:
        """Return why the API server does not create a document; "" where it does, or could not be asked."""
        what = f"dry run of a {kind.served}"
        try:
            call = calls.Call("POST", kind.path(namespace), {"dryRun": "All"}, document)
            await calls.answered(
                self._sender, call, _DEADLINE, lambda answer: payloads.read(answer, _LONGEST, what), shown=_SHOWN
            )
        except transports.RefusedError as refused:
            said = _STATUS.sub("", str(refused))
            if refused.status == 403 and _OWN_RIGHTS.search(said):
                self.warnings[f"a {kind.served} may not be created in {namespace}, so its dry run was not made"] = None
            elif refused.status in (400, 403, 422) and not _OURS.search(said):
                return said
            elif refused.status not in (400, 403, 404, 409, 422):
                self.warnings[f"{what} in {namespace} failed: {refused}"] = None
        except transports.TransportError as failed:
            self.warnings[f"{what} in {namespace} was not answered: {failed}"] = None
        return ""


def _created(document: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return a document as it is sent: without what only the API server writes."""
    kept = ("name", "generateName", "labels", "annotations", "finalizers", "ownerReferences")
    metadata = {key: value for key, value in member(document, "metadata").items() if key in kept}
    return {
        **{key: value for key, value in document.items() if key != "status"},
        "metadata": {**metadata, "namespace": namespace},
    }


def _pods(case: Case, jobset: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a pod of each replicated job of a JobSet, with empty volumes for those that controllers add."""
    runtime, spec = case.mutated.governor.runtime, member(jobset, "spec")
    policies = (each for policy in items(spec, "volumeClaimPolicies") for each in items(policy, "templates"))
    claims = {str(member(each, "metadata").get("name")) for each in policies}
    for job in items(spec, "replicatedJobs"):
        template = member(job, "template", "spec", "template")
        added = set(claims)
        if case.source.kind == "TrainJob" and runtime is not None:
            added |= ml_policies.volumes(runtime.ml_policy, job, _name(case.document))
        pod = dict(member(template, "spec"))
        held = {str(each.get("name")) for each in items(pod, "volumes")}
        made = [{"name": name, "emptyDir": {}} for name in sorted(added - held)]
        pod |= {"restartPolicy": pod.get("restartPolicy") or "OnFailure", "volumes": [*items(pod, "volumes"), *made]}
        metadata: dict[str, Any] = {key: member(template, "metadata", key) for key in ("labels", "annotations")}
        metadata |= {"generateName": f"{_name(jobset)}-{job.get('name')}-", "namespace": case.namespace}
        yield str(job.get("name")), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod}


def _name(document: Mapping[str, Any]) -> str:
    metadata = member(document, "metadata")
    return str(metadata.get("name") or metadata.get("generateName") or "unnamed")
