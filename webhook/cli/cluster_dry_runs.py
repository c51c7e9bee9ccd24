"""Dry runs of files: the API server is asked about each job, and about what will be made for it, before it exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from muster.kube import transports
from muster.strategies.documents import trainjobs
from muster.strategies.documents.findings import Finding, error
from muster.strategies.documents.loose import member
from muster.webhook.admission import answers
from muster.webhook.cli import jobsets
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cluster import dry_runs, kinds, readers, served

__all__ = ["DryRuns"]

_DEADLINE = 10.0  # seconds for one request
_MAKING = {"TrainJob": kinds.KINDS["TrainJob"], "JobSet": kinds.JOBSET}


class DryRuns:
    """Asks one API server with the rights of whoever runs the command.

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
        """Return a case with what the API server refuses of the job, of its Jobs and of its pods."""
        kind = _MAKING.get(case.source.kind)
        if kind is None or case.misfits or case.failure:
            return case
        name, found = dry_runs.name_of(case.document), list[Finding]()
        if not self._needs_files(case):
            answer = await self._answer(kind, case.namespace, _created(case.source.document, case.namespace))
            found += [error("metadata.name", name, answer.refusal, rule=dry_runs.RULE)] if answer.refusal else []
        follower = case if case.source.kind == "JobSet" else jobsets.follow(case, self._setup)
        runtime = case.mutated.governor.runtime if case.source.kind == "TrainJob" else None
        document = follower.document if follower is not None else {}
        asked = dry_runs.questions(document, case.namespace, runtime, name)
        answered = [(each, await self._answer(each.kind, case.namespace, each.document)) for each in asked]
        found += dry_runs.findings(answered, case.source.kind)
        return structs.replace(case, own=(*case.own, *map(answers.quotable, found))) if found else case

    def _needs_files(self, case: Case) -> bool:
        """Whether the cluster lacks what the files have, so that it would refuse the job for that alone."""
        kind, name = trainjobs.runtime_ref(case.document)
        namespace = case.namespace if kind == "TrainingRuntime" else ""
        given = self._setup.cluster.origins
        return readers.Ref(kind, namespace, name) in given or readers.Ref("Namespace", "", case.namespace) in given

    async def _answer(self, kind: served.Kind, namespace: str, document: Mapping[str, Any]) -> dry_runs.Answer:
        answer = await dry_runs.ask(self._sender, kind, namespace, document, _DEADLINE)
        if answer.trouble:
            self.warnings[answer.trouble + ", so its dry run was not made" * answer.forbidden] = None
        return answer


def _created(document: Mapping[str, Any], namespace: str) -> dict[str, Any]:
    """Return a document as it is sent: without what only the API server writes."""
    kept = ("name", "generateName", "labels", "annotations", "finalizers", "ownerReferences")
    metadata = {key: value for key, value in member(document, "metadata").items() if key in kept}
    return {
        **{key: value for key, value in document.items() if key != "status"},
        "metadata": {**metadata, "namespace": namespace},
    }
