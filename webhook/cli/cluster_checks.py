"""Clusters: checks jobs with what a running cluster has, or the jobs of the cluster themselves.

The API server is asked too about each job of files, and about what will be made for it, before it exists.

Decisions are made as the service makes them: from memory, and what is missing there is fetched, before the decision is
made again. Files win over the cluster, so that a runtime can be tried before it is applied.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping

from msgspec import structs

from muster.kube import transports
from muster.strategies.documents import trainjobs
from muster.strategies.documents.decoding import member
from muster.strategies.documents.findings import Finding, error
from muster.strategies.jobs import templates
from muster.webhook.admission import answers
from muster.webhook.cli import cases, cluster_connections, problems, related
from muster.webhook.cli.cases import Case, Setup
from muster.webhook.cluster import dry_runs, kinds, listings, live, readers, served, trainers, writes
from muster.webhook.kubeyaml import sources
from muster.webhook.kubeyaml.sources import Input, Origin, Source

__all__ = ["check"]


_DEADLINE = 10.0  # seconds for one request
_MOST_FETCHES = 12  # as the service: namespace, job, runtime, snapshot, claims


def check(args: argparse.Namespace) -> tuple[Setup, list[Case]]:
    """Return the setup and the cases of what is named, or without paths of all jobs of the cluster or a namespace.

    Raises:
        CommandError: there is no cluster, or its jobs cannot be read.
    """
    return cluster_connections.ask(_check(args))


async def _check(args: argparse.Namespace) -> tuple[Setup, list[Case]]:
    names = [*args.paths, *args.filename]
    async with cluster_connections.connected(args) as sender:
        found = sources.read(names) if names else await _jobs(sender, args.namespace)
        setup = cases.setup(args, found, live=True)
        setup.cluster.reader.trainer = setup.cluster.reader.trainer or await trainers.read(sender, _DEADLINE)
        asking = _Asking(setup.cluster.reader, live.LiveReader((), sender, _DEADLINE))
        judged = [source for source in setup.sources if cases.is_judged(source)]
        decided = [await _decide(setup, source, asking) for source in judged]
        claims = await _claims(setup, decided, sender, asking)
        if claims:
            setup = structs.replace(setup, fetched=claims)
            decided = [await _decide(setup, source, asking) for source in judged]
        if names:
            asked = _DryRuns(sender, setup)
            decided = [await asked.ask(case) for case in decided]
            asking.warnings.update(asked.warnings)
    problems.warn(f"muster: {problems.one_line(each)}" for each in asking.warnings)
    return setup, decided


async def _jobs(sender: transports.Sender, namespace: str) -> Input:
    found = [
        Source(Origin(f"cluster/{document['metadata']['namespace']}"), document)
        for kind in (kinds.KINDS["TrainJob"], kinds.JOBSET)
        for document in await listings.read(sender, kind, namespace, _DEADLINE)
    ]
    return Input(sorted(found, key=lambda each: each.origin.file))


async def _claims(setup: Setup, decided: Iterable[Case], sender: transports.Sender, asking: _Asking) -> list[Source]:
    """Return the claims of volumes that the jobs name, as the cluster has them; those of the files win."""
    named: dict[tuple[str, str], None] = {}
    judged = (each for case in decided for each in case.trials or (case,))
    for case in (each for each in judged if not each.misfits):
        for template in templates.list_templates(related.job_of(case.mutated, case.document)):
            claims = (each.persistent_volume_claim for each in template.pod.volumes)
            named.update(((case.namespace, each.claim_name), None) for each in claims if each and each.claim_name)
    found: list[Source] = []
    access = writes.Writes(sender)
    for namespace, name in named:
        kind = kinds.VOLUME_CLAIM
        ref = readers.Ref(kind.name, namespace, name)
        if setup.inputs.named(related.PersistentVolumeClaim, namespace, name) or not kind.can_exist(ref):
            continue
        try:
            claim = await access.get(kind, namespace, name)
        except transports.RefusedError:
            text = f"volume claims in {namespace} may not be read, so their access modes were not looked at"
            asking.warnings[text] = None
            continue
        if claim is not None:
            found.append(Source(Origin(f"cluster/{namespace}"), {**claim, "kind": kind.name, "apiVersion": "v1"}))
    return found


async def _decide(setup: Setup, source: Source, asking: _Asking) -> Case:
    """Decide about a job, as often as objects are missing that the decision reads."""
    case = setup.decide(source, asking)
    for _ in range(_MOST_FETCHES):
        if not asking.missing:
            break
        await asking.fetch()
        case = setup.decide(source, asking)
    asking.missing.clear()
    return case


class _Asking:
    """A reader that answers from files and from what was fetched, and notes what it was asked for in vain."""

    whole = True

    def __init__(self, files: readers.ClusterReader, cluster: live.LiveReader) -> None:
        self.missing: dict[readers.Ref, None] = {}
        self.warnings: dict[str, None] = {}
        self._files = files
        self._cluster = cluster
        self.trainer = readers.trainer_of(files)
        self._answers: dict[readers.Ref, readers.Document | Exception | None] = {}

    def get(self, ref: readers.Ref) -> readers.Document | None:
        """Return the document. See `ClusterReader.get`.

        Raises:
            ClusterUnavailable: it was asked for, and the API server did not give it.
        """
        given = self._files.get(ref)
        if given is not None:
            return given
        if ref not in self._answers:
            self.missing[ref] = None
            raise readers.NotCached(ref)
        answer = self._answers[ref]
        if isinstance(answer, Exception):
            raise answer.with_traceback(None)
        return answer

    def every(self, kind: str, labels: readers.Labels) -> Iterable[readers.Document] | None:  # noqa: ARG002  # the protocol
        """Return None: nothing is read as a whole. See `ClusterReader.every`."""
        kinds.named(kind)
        return None

    async def fetch(self) -> None:
        """Fetch what is missing."""
        for ref in list(self.missing):
            self._answers[ref] = await self._answer(ref)
        self.missing.clear()

    async def _answer(self, ref: readers.Ref) -> readers.Document | Exception | None:
        try:
            return await self._cluster.fetch(ref)
        except (readers.ClusterError, readers.SnapshotInvalid) as error:
            if ref.kind != "Namespace" or not _is_forbidden(error):
                return error
            text = f"namespace {ref.name} may not be read, so its label for the mode was not looked at"
            self.warnings[text] = None
            return None


def _is_forbidden(error: Exception) -> bool:
    return isinstance(error.__cause__, transports.RefusedError) and error.__cause__.status == 403


_MAKING = {"TrainJob": kinds.KINDS["TrainJob"], "JobSet": kinds.JOBSET}


class _DryRuns:
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
        follower = case if case.source.kind == "JobSet" else cases.follow(case, self._setup)
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
        given = self._setup.cluster.kept
        return readers.Ref(kind, namespace, name) in given or readers.Ref("Namespace", "", case.namespace) in given

    async def _answer(self, kind: served.Kind, namespace: str, document: Mapping[str, object]) -> dry_runs.Answer:
        answer = await dry_runs.ask(self._sender, kind, namespace, document, _DEADLINE)
        if answer.trouble:
            self.warnings[answer.trouble + ", so its dry run was not made" * answer.forbidden] = None
        return answer


def _created(document: Mapping[str, object], namespace: str) -> dict[str, object]:
    """Return a document as it is sent: without what only the API server writes."""
    kept = ("name", "generateName", "labels", "annotations", "finalizers", "ownerReferences")
    metadata = {key: value for key, value in member(document, "metadata").items() if key in kept}
    return {
        **{key: value for key, value in document.items() if key != "status"},
        "metadata": {**metadata, "namespace": namespace},
    }
