"""Cases: one job and the decisions about it, made by the functions that the service calls.

As in the cluster, `Setup.decide` first mutates the object and then validates the result. `follow` predicts the JobSet
that Trainer would make of a TrainJob after mutation, which is then decided with that TrainJob as its owner.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from msgspec import Struct, field, structs

from muster.audit import scanner
from muster.strategies.documents import decoding, findings, model, names, paths
from muster.strategies.documents.findings import Finding, Severity
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.frameworks import builtin
from muster.strategies.plugins.registry import PluginImportError
from muster.strategies.trainer import optimization_trials, predictions
from muster.webhook.admission import answers, decisions, governors, plugin_calls, reviews
from muster.webhook.admission.decisions import Decision
from muster.webhook.admission.policies import Policy
from muster.webhook.cli import file_findings, gathering, problems, related, schemas
from muster.webhook.cli.gathering import GatheredCluster
from muster.webhook.cli.problems import CommandError
from muster.webhook.cli.related import Inputs
from muster.webhook.cluster import overlay, readers
from muster.webhook.cluster.readers import Document
from muster.webhook.kubeyaml import sources
from muster.webhook.kubeyaml.sources import Source, Unreadable

__all__ = [
    "Case",
    "Selection",
    "Setup",
    "follow",
    "is_job",
    "is_judged",
    "is_search",
    "of_text",
    "policy",
    "prepare",
    "read",
    "setup",
]


_GROUPS = {"TrainJob": names.TRAINER_GROUP, "JobSet": names.JOBSET_GROUP}


class Selection(Struct, frozen=True):
    """The rules that are reported.

    Attributes:
        selected: ids (`trl/launch`) and groups (`trl`); empty for all.
        ignored: ids and groups that are left out, also of those selected.
    """

    selected: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()

    def wants(self, rule: str) -> bool:
        """Whether findings of a rule are reported."""
        names = {rule, rule.partition("/")[0]}
        return (not self.selected or bool(names & self.selected)) and not names & self.ignored


_NOTHING = Selection(frozenset({""}))


class Case(Struct, frozen=True):
    """One TrainJob or JobSet with the decisions about it.

    Attributes:
        source: the object and its place.
        mutated: the decision of the mutation.
        validated: the decision of the validation of the mutated object.
        own: what is wrong before any webhook is asked: what the API server refuses, what the files do not tell.
        settled: rules and fields of warnings and notes that the other documents of the input answer.
        notes: what a prediction leaves out; empty for an object from a file.
        corrected: what is found of the object as it was evidently meant, where its members have a wrong type or place.
        predicted: whether the object is a prediction of what Trainer makes, and not from a file.
        selection: the rules whose findings are shown; whether the cluster refuses the object does not depend on it.
        ending: how the explanation of it ends, `kind` and `text`; empty where nobody has asked.
        trials: of an OptimizationJob, the cases of TrainJobs that Trainer may make of it.
    """

    source: Source
    mutated: Decision
    validated: Decision
    own: tuple[Finding, ...] = ()
    settled: frozenset[tuple[str, str]] = frozenset()
    corrected: tuple[Finding, ...] | None = None
    notes: tuple[str, ...] = ()
    predicted: bool = False
    selection: Selection = Selection()
    ending: Mapping[str, object] = field(default_factory=dict)
    trials: tuple[Case, ...] = ()

    @property
    def title(self) -> str:
        """`TrainJob/llama`, without tokens of a known form."""
        return scanner.text(self.source.title)

    @property
    def place(self) -> str:
        """Place and name of the job."""
        return f"{self.source.origin} {self.title}{' (predicted)' if self.predicted else ''}"

    @property
    def namespace(self) -> str:
        """Namespace of the request."""
        return self.mutated.request.namespace

    @property
    def document(self) -> Document:
        """The object as the cluster would store it."""
        return self.mutated.document

    @property
    def findings(self) -> list[Finding]:
        """Those of the selected rules."""
        return [each for each in self.all_findings if self.selection.wants(each.rule)]

    @property
    def all_findings(self) -> list[Finding]:
        """All of them, each once; what a decision says about a field stands for what the API server says about it."""
        decided = self._decided
        if not self.own:
            return decided
        if self.corrected is not None:
            said = {self._place(each) for each in self.corrected}
            own = (each for each in self.own if each.rule == "core/shape" or self._place(each) not in said)
            return [*own, *self.corrected]
        misfits = {self._place(each) for each in self.own if each.rule == "core/shape"}
        if misfits:  # no other rule judges a member of the wrong type
            decided = [each for each in decided if self._place(each) not in misfits]
        said = {self._place(each) for each in findings.errors(decided)}
        return [*(each for each in self.own if self._place(each) not in said), *decided]

    def _place(self, each: Finding) -> object:
        """Return where a field is, because rules spell `limits[cpu]` and `limits.cpu`."""
        return paths.locate(self.source.document, each.field) or each.field

    @property
    def _decided(self) -> list[Finding]:
        found = list(self.mutated.findings)
        found += [each for each in self.validated.findings if each not in found]
        return [each for each in found if not self._is_settled(each)] if self.settled else found

    def _is_settled(self, each: Finding) -> bool:
        return each.severity is not Severity.ERROR and (each.rule, each.field) in self.settled

    @property
    def errors(self) -> list[Finding]:
        """Findings that are errors, in every mode."""
        return findings.errors(self.findings)

    @property
    def warnings(self) -> list[Finding]:
        """Findings that are warnings, in every mode."""
        return [each for each in self.findings if each.severity is Severity.WARNING]

    @property
    def is_open(self) -> bool:
        """Whether the explanation ends as open."""
        return self.ending.get("kind") == "open"

    def fails(self, *, strict: bool = False, strict_open: bool = False) -> bool:
        """Whether a check of the object fails: by errors, by a failure of the decision, or by what is asked for."""
        return bool(self.errors or self.failure or (strict and self.warnings) or (strict_open and self.is_open))

    @property
    def misfits(self) -> bool:
        """Whether members have the wrong type, so that nothing else could be checked."""
        return any(each.rule == "core/shape" for each in self._decided)

    @property
    def is_unlabelled(self) -> bool:
        """Whether it is a JobSet without a label, which was judged as what its launch is and will not be changed."""
        runtime = self.mutated.governor.runtime
        return runtime is not None and runtime.source == "launch"

    @property
    def failure(self) -> str:
        """Why no decision could be made; "" when one was."""
        return self.mutated.message or self.validated.message

    @property
    def refused(self) -> bool:
        """Whether the cluster would refuse the object."""
        return not (self.mutated.allowed and self.validated.allowed) or bool(findings.errors(self.own))


class Setup(Struct, frozen=True, dict=True):
    """The input of a command.

    Attributes:
        sources: all documents, in order.
        unreadable: what could not be read.
        cluster: the reader for decisions.
        policy: the policy for decisions.
        namespace: the namespace of documents that name none.
        fetched: documents of a cluster that the jobs name, beside those that decisions read.
    """

    sources: list[Source]
    unreadable: list[Unreadable]
    cluster: GatheredCluster
    policy: Policy
    namespace: str
    fetched: Sequence[Source] = ()

    @cached_property
    def inputs(self) -> Inputs:
        """The documents again, by their names."""
        return Inputs([*self.sources, *self.fetched], self.namespace)

    def decide(
        self,
        source: Source,
        cluster: readers.ClusterReader | None = None,
        *,
        old: Document | None = None,
    ) -> Case:
        """Decide about a job as if it were created now; findings quote no token of a known form.

        Args:
            source: a TrainJob, JobSet or OptimizationJob, which may have members of any type.
            cluster: the reader to use instead of the setup's own.
            old: the job as the cluster has it, which is then updated instead.
        """
        cluster = cluster or self.cluster.reader
        if is_search(source):
            return self._searched(source, cluster)
        mutated, validated = self._decided(source, source.document, cluster, old)

        def decide(other: Document) -> list[Finding]:
            return [found for each in self._decided(source, other, cluster, old) for found in each.findings]

        told = related.look(source, (mutated, validated), cluster, self.inputs, decide)
        found = (*file_findings.check(source, mutated, cluster, self.inputs), *told.findings)
        first, second = answers.without_tokens(mutated), answers.without_tokens(validated)
        kind = schemas.known_as(source.document, readers.trainer_of(cluster))
        meant = schemas.corrected(source.document, kind) if kind is not None else None
        again = None if meant is None else (each for each in decide(meant) if each.severity is not Severity.NOTE)
        corrected = None if again is None else tuple(map(answers.quotable, findings.once(again)))
        return Case(source, first, second, tuple(map(answers.quotable, found)), told.settled, corrected)

    def _searched(self, source: Source, cluster: readers.ClusterReader) -> Case:
        """Decide about an OptimizationJob as follows from the cases of its trials."""
        request = self._request(source, source.document, "validate", None)
        if decoding.check(source.document, names.OPTIMIZATION_JOB):
            judged, made = evaluate(request, cluster, self.policy), []
        else:
            every = optimization_trials.trials(source.document)
            made = [self.decide(structs.replace(source, document=each.document, repeats=()), cluster) for each in every]
            last = [each.mutated if each.mutated.message else each.validated for each in made]
            found = [each.all_findings for each in made]
            judged = decisions.of_trials(request, list(zip(every, last, found, strict=True)), self.policy)
        judged = structs.replace(judged, allowed=judged.allowed and not any(each.refused for each in made))
        first = structs.replace(
            judged, request=structs.replace(request, phase="mutate"), verdict="unchanged", findings=()
        )
        own = tuple(map(answers.quotable, file_findings.repeated(source)))
        return Case(source, first, answers.without_tokens(judged), own, trials=tuple(made))

    def _decided(
        self,
        source: Source,
        document: Document,
        cluster: readers.ClusterReader,
        old: Document | None,
    ) -> tuple[Decision, Decision]:
        mutated = evaluate(self._request(source, document, "mutate", old), cluster, self.policy)
        validated = evaluate(self._request(source, mutated.document, "validate", old), cluster, self.policy)
        launched = file_findings.framework(mutated) if old is None else ""
        if not launched:
            return mutated, validated
        assumed = evaluate(structs.replace(validated.request, launched=launched), cluster, self.policy)
        validated = file_findings.judged(validated, assumed)
        return structs.replace(mutated, governor=assumed.governor, strategy=assumed.strategy), validated

    def require_readable(self) -> None:
        """Raise when anything could not be read, so that no incomplete output is shown.

        Raises:
            CommandError: one line for each fault.
        """
        if self.unreadable:
            raise CommandError("\n".join(str(each) for each in self.unreadable))

    def _request(
        self, source: Source, document: Document, phase: reviews.Phase, old: Document | None
    ) -> reviews.Request:
        namespace = decoding.read(document, model.Namespace).metadata.namespace or self.namespace
        return reviews.of_object(phase, _kind(source), document, namespace, old)


def evaluate(request: reviews.Request, cluster: readers.ClusterReader, policy: Policy) -> Decision:
    """Evaluate as the service does: every failure ends in the failure mode of the policy."""
    try:
        return decisions.evaluate(request, cluster, policy)
    except readers.NotCached as missing:
        cause = f"{missing.ref} could not be read: it is not in any of the given files"
        return decisions.failed(request, policy, cause, governors.known(request, cluster))
    except readers.ClusterError as error:
        return decisions.failed(request, policy, str(error), governors.known(request, cluster))
    except Exception as error:  # noqa: BLE001  # a document of the cluster that no API server would hold; named, not shown as a traceback
        cause = f"Muster failed with {plugin_calls.told(error)}"
        return decisions.failed(request, policy, cause, governors.known(request, cluster))


def is_job(source: Source) -> bool:
    """Whether the API server would call Muster for the object, or would if its kind and version were spelt right."""
    kind = schemas.known_as(source.document)
    return kind is not None and kind.name in _GROUPS


def is_search(source: Source) -> bool:
    """Whether the object is an OptimizationJob, which no version of Trainer with a table of its members has."""
    return (source.kind, source.group) == (names.OPTIMIZATION_JOB, names.TRAINER_GROUP)


def _kind(source: Source) -> str:
    kind = schemas.known_as(source.document)
    return kind.name if kind is not None else source.kind


def is_judged(source: Source) -> bool:
    """Whether `check` looks at the object: a job, an OptimizationJob or a runtime."""
    return is_search(source) or schemas.known_as(source.document) is not None


def policy(config: Path | None) -> Policy:
    """Return the policy of a configuration file, the default one without a file.

    Raises:
        CommandError: the file or an installed strategy cannot be used.
    """
    try:
        registry = builtin.load()
    except (PluginImportError, ValueError, TypeError) as error:
        raise CommandError(str(error)) from error
    if config is None:
        return Policy(registry=registry)
    from muster.webhook import configs  # noqa: PLC0415  # pydantic takes as long to import as everything else together

    try:
        found = configs.load(config)
    except configs.ConfigError as error:
        raise CommandError(str(error)) from error
    known = {each.strategy.framework for each in registry}
    for name in sorted(set(found.frameworks) - known):
        problems.say(f"{config}: frameworks.{name}: has no strategy; there are {', '.join(sorted(known))}")
    return found.policy(registry)


def of_text(name: str, text: str) -> Setup:
    """Return the setup for a text under a name of a file, with the default policy."""
    found = sources.read_text(name, text)
    return Setup(found.sources, [], gathering.gather(found.sources), policy(None), "default")


def prepare(args: argparse.Namespace) -> Setup:
    """Read everything that a command names, as paths or with `-f`.

    Raises:
        CommandError: nothing is named, or the cluster or the policy cannot be made.
    """
    return setup(args, read(args))


def read(args: argparse.Namespace) -> sources.Input:
    """Read everything that a command names, as paths or with `-f`.

    Raises:
        CommandError: nothing is named.
    """
    names = [*args.paths, *args.filename]
    if not names:
        raise CommandError(f"name files or folders, or - for stdin; see `muster {args.command} --help`")
    return sources.read(names)


def setup(args: argparse.Namespace, found: sources.Input, *, live: bool = False) -> Setup:
    """Return the setup for what was read; with `live` a cluster has what is not among it.

    Raises:
        CommandError: the cluster or the policy cannot be made.
    """
    namespace = args.namespace or "default"
    cluster = gathering.gather(found.sources, args.runtimes, namespace=namespace, whole=live, ours=not live)
    unreadable = found.unreadable + cluster.unreadable
    settings = policy(args.config)
    cluster.reader.trainer = args.trainer or settings.trainer
    return Setup(found.sources, unreadable, cluster, settings, namespace)


def follow(case: Case, setup: Setup) -> Case | None:
    """Return the case of the JobSet that Trainer would make of a TrainJob, or of the first trial of an OptimizationJob.

    None when there would be none (the TrainJob is refused, or its runtime is missing or not usable), when the case is
    of another kind, or when the input contains that JobSet. One that cannot be predicted is named on stderr. What was
    found about a trial is told of its OptimizationJob.
    """
    if case.trials and not case.refused:
        return structs.replace(case.trials[0], predicted=True, selection=_NOTHING)
    if case.source.kind != "TrainJob" or case.refused:
        return None
    name = predictions.job_name(case.document)
    runtime = _runtime(case, name, setup)
    if runtime is None or decoding.check(runtime.document) or _is_given(name, case.namespace, setup):
        return None
    try:
        predicted = predictions.predict(case.document, runtime, case.namespace)
    except predictions.UnpredictableError as error:
        problems.warn([problems.one_line(f"muster: {case.place}: {error}")])
        return None
    cluster = overlay.Overlay(setup.cluster.reader)
    cluster.put(readers.Ref("TrainJob", case.namespace, name), case.document)
    decided = setup.decide(structs.replace(case.source, document=predicted.jobset, repeats=()), cluster)
    return Case(decided.source, decided.mutated, decided.validated, notes=predicted.notes, predicted=True)


def _runtime(case: Case, name: str, setup: Setup) -> Runtime | None:
    """Return the runtime that Trainer would use: the runtime snapshot of the job, otherwise the live runtime."""
    try:
        frozen = setup.cluster.reader.get(readers.Ref("RuntimeSnapshot", case.namespace, name))
    except readers.SnapshotInvalid:
        return None
    trainer = readers.trainer_of(setup.cluster.reader)
    return Runtime(frozen, "snapshot", version=trainer) if frozen is not None else case.mutated.governor.runtime


def _is_given(name: str, namespace: str, setup: Setup) -> bool:
    named = [each for each in setup.sources if each.kind == "JobSet" and each.metadata.name == name]
    return bool(named) and (named[0].metadata.namespace or setup.namespace) == namespace
