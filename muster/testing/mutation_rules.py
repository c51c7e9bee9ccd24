"""The rules of mutation (docs/strategies.md) as one check of a strategy."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple, TypeAlias

from muster.runtime_choice import Document
from muster.strategies.changes.changes import Operation
from muster.strategies.documents import findings
from muster.strategies.plugins.registry import FrameworkStrategy
from muster.testing import call_counts, strategy_runs
from muster.testing.example_jobs import SECRET, Made, Sample, samples
from muster.webhook.admission.decisions import Decision

__all__ = ["check_rules"]

_UNKNOWN, _VALUE = "exampleUnknown", {"deep": [1, None, {"x": "y"}]}
_LEAST = 16
_SHOWN = 20

_Check: TypeAlias = "Callable[[_Trial], Iterator[str]]"


def check_rules(strategy: FrameworkStrategy, jobs: Iterable[Sample] | None = None) -> None:
    """Check that a strategy keeps the rules of mutation, with each job and with the JobSet that Trainer makes of it.

    Args:
        strategy: the strategy under test.
        jobs: jobs of its framework; `samples(strategy.framework)` by default, which has no launch that it understands.

    Raises:
        AssertionError: rules are broken; the message has each with its number, the job, and what to do.
    """
    given = list(jobs) if jobs is not None else samples(strategy.framework)
    assert given, "check_rules: jobs: there are none; give at least one Sample"  # noqa: S101  # what tests expect
    found: dict[str, list[str]] = {}
    for sample in itertools.chain.from_iterable(_lives(strategy, each) for each in given):
        for problem in _broken(strategy, sample):
            found.setdefault(problem, []).append(sample.name)
    for name, problem in call_counts.check(strategy, given):
        found.setdefault(f"Cost: {problem}", []).append(name)
    if found:
        raise AssertionError(
            f"strategy {strategy.framework!r} breaks rules of mutation:\n  " + "\n  ".join(_lines(found))
        )


def _lines(found: Mapping[str, list[str]]) -> Iterator[str]:
    for problem, jobs in itertools.islice(found.items(), _SHOWN):
        more = len(set(jobs)) - 1
        yield f"{problem}; with {jobs[0]}{f', and {more} more' if more else ''}"
    if len(found) > _SHOWN:
        yield f"and {len(found) - _SHOWN} more"


def _lives(strategy: FrameworkStrategy, sample: Sample) -> Iterator[Sample]:
    """Yield the job, and the JobSet that Trainer makes of it after Muster."""
    yield sample
    if sample.job["kind"] != "TrainJob" or sample.runtime is None:
        return
    stored = strategy_runs.mutate(strategy, sample.job, *sample.cluster).document
    jobset = strategy_runs.jobset_of(stored, sample.runtime)
    yield dataclasses.replace(sample, name=f"the JobSet of {sample.name}", job=jobset, more=(*sample.more, stored))


class _Trial(NamedTuple):
    """One job with the strategy under test, and what is decided about it."""

    strategy: FrameworkStrategy
    sample: Sample
    decision: Decision

    @property
    def stored(self) -> Document:
        """The job as it is stored."""
        return self.decision.document

    def mutate(self, job: Document, old: Document | None = None) -> Decision:
        """Return what is decided about another job in its place."""
        return strategy_runs.mutate(self.strategy, job, *self.sample.cluster, old=old)

    def validate(self, job: Document) -> Decision:
        """Return what the validating webhook decides."""
        return strategy_runs.validate(self.strategy, job, *self.sample.cluster)


def _broken(strategy: FrameworkStrategy, sample: Sample) -> Iterator[str]:
    decision = strategy_runs.mutate(strategy, sample.job, *sample.cluster)
    if decision.verdict not in ("patched", "unchanged"):
        yield f"the decision is {decision.verdict}: {decision.message or _texts(decision)}"
        return
    for heading, check in _CHECKS.items():
        for problem in check(_Trial(strategy, sample, decision)):
            yield f"{heading}: {problem}"


def _patch(trial: _Trial) -> Iterator[str]:
    if strategy_runs.applied(trial.sample.job, trial.decision) != trial.stored:
        yield "the JSON Patch does not make the document; record plain JSON values only"


def _unknown(trial: _Trial) -> Iterator[str]:
    marked = _marked(trial.sample.job)
    decision = trial.mutate(marked)
    if _operations(decision) != _operations(trial.decision):
        yield f"a member {_UNKNOWN} changed the decision; read only the members that you need"
    if _count(decision.document) < _count(marked):
        yield f"a member {_UNKNOWN} is lost; set single fields, and not the objects around them"


def _additions(trial: _Trial) -> Iterator[str]:
    owned = trial.sample.job["kind"] == "JobSet" and trial.sample.runtime is not None
    for change in trial.decision.changes if owned else ():
        if change.op != "add":
            yield f"{change.field}: {change.rule} {change.op}s it; change the TrainJob, whose fields Trainer applies"


def _restored(trial: _Trial) -> Iterator[str]:
    again = strategy_runs.reapplied(trial.stored, trial.sample.job)
    if trial.mutate(again, trial.stored).document["spec"] != trial.stored["spec"]:
        yield "the same file applied again would change the stored job; replace entries of a list, and not the list"


def _idempotent(trial: _Trial) -> Iterator[str]:
    for change in trial.mutate(trial.stored).changes:
        yield f"{change.field}: {change.rule} changes it again; look for what was enforced already"


def _order(trial: _Trial) -> Iterator[str]:
    if trial.sample.job["kind"] != "TrainJob":
        return
    if trial.mutate(_queued(trial.sample.job)).document != _queued(trial.stored):
        yield "spec.suspend and a queue label, which another webhook sets, change what the strategy does"
    if _operations(trial.mutate(_nameless(trial.sample.job))) != _operations(trial.decision):
        yield "generateName changes what the strategy does; the name of a TrainJob is not known at CREATE"


def _theirs(trial: _Trial) -> Iterator[str]:
    for change in trial.decision.changes if trial.sample.own_program else ():
        if change.field.endswith((".command", ".args")) or ".command[" in change.field or ".args[" in change.field:
            yield f"{change.field}: {change.rule} changes a program of the user; report a warning in its place"
    kept = list(_variables(trial.stored))
    for entry in _variables(trial.sample.job):
        if entry in kept:
            kept.remove(entry)
        else:
            yield f"the variable {entry.get('name')} of the user is changed; keep it, and report a warning"


def _pure(trial: _Trial) -> Iterator[str]:
    first = _outcome(trial)
    with strategy_runs.watch() as seen:
        second = _outcome(trial)
    if first != second:
        yield "two decisions about the same job differ; use no clock, no chance and no state"
    for event in dict.fromkeys(seen):
        yield f"{event} was called; do no input or output in a decision"


def _passable(trial: _Trial) -> Iterator[str]:
    before, after = trial.validate(trial.sample.job), trial.validate(trial.stored)
    if after.verdict == "error":
        yield f"validate fails: {after.message}"
    known = {each.rule for each in findings.errors(before.findings)}
    for each in findings.errors(after.findings):
        if each.rule not in known:
            yield f"the strategy refuses what it made itself: {each}"


def _told(trial: _Trial) -> Iterator[str]:
    mutated = trial.decision
    every = [*mutated.findings, *trial.validate(mutated.document).findings]
    said = [(each.rule, each.message, str(each)) for each in every]
    said += [(each.rule, each.reason, each.reason) for each in mutated.changes if not each.rule.startswith("core/")]
    for rule, text, whole in said:
        if SECRET in whole:
            yield f"{rule} quotes the value of a secret variable; quote its name"
        if not _is_rule(rule):
            yield f"{rule!r} is not the id of a rule; write {trial.strategy.framework}/words-with-dashes"
        if len(text) < _LEAST or "\n" in text or text.endswith("."):
            yield f"{rule}: {text!r} is not one sentence without a full stop that says what and why"


_CHECKS: Mapping[str, _Check] = {
    "Rule 1, the patch": _patch,
    "Rule 1, fields that Muster does not know": _unknown,
    "Rules 2 and 3, the JobSet of a TrainJob is added to": _additions,
    "Rule 4, what was replaced is given back": _restored,
    "Rule 5, a second pass changes nothing": _idempotent,
    "Rule 5, the order of webhooks does not matter": _order,
    "Rule 6, what is the user's stays": _theirs,
    "Rule 7, no side effects": _pure,
    "Rule 8, block as little as possible": _passable,
    "Rule 9 and the form of messages": _told,
}


def _outcome(trial: _Trial) -> object:
    strategy, cluster = trial.strategy, trial.sample.cluster
    mutated = strategy_runs.decide(strategy, trial.sample.job, cluster, "mutate", in_tree=True)
    validated = strategy_runs.decide(strategy, mutated.document, cluster, "validate", in_tree=True)
    return mutated.document, mutated.findings, validated.findings


def _operations(decision: Decision) -> list[Operation]:
    return [each.operation for each in decision.changes]


def _is_rule(rule: str) -> bool:
    group, slash, name = rule.partition("/")
    words = name.replace("-", "").replace("/", "").replace("_", "")
    return bool(group and slash and words.isalnum() and name == name.lower())


def _objects(value: object) -> Iterator[Made]:
    """Yield each object in a value whose members may have any name: itself first, mappings of users' names not."""
    match value:
        case list():
            for each in value:
                yield from _objects(each)
        case dict():
            yield value
            for key, each in value.items():
                yield from _objects(each if key not in _MAPS else None)


_MAPS = ("labels", "annotations", "limits", "requests", "nodeSelector", "matchLabels")
"""Mappings whose members are the user's names, and of one type."""


def _marked(job: Document) -> Document:
    """Return a copy in which every object that may have members of any name has one that nobody knows."""
    marked = copy.deepcopy(dict(job))
    for each in list(_objects(marked)):
        each[_UNKNOWN] = copy.deepcopy(_VALUE)
    return marked


def _count(job: Document) -> int:
    return sum(each.get(_UNKNOWN) == _VALUE for each in _objects(job))


def _queued(job: Document) -> Document:
    labels = {**job["metadata"].get("labels", {}), "kueue.x-k8s.io/queue-name": "gpus"}
    return {**job, "metadata": {**job["metadata"], "labels": labels}, "spec": {**job["spec"], "suspend": True}}


def _nameless(job: Document) -> Document:
    rest = {key: value for key, value in job["metadata"].items() if key not in ("name", "uid")}
    return {**job, "metadata": {**rest, "generateName": "example-"}}


def _variables(job: Document) -> Iterator[Document]:
    return (entry for each in _objects(job) for entry in each.get("env", ()))


def _texts(decision: Decision) -> str:
    return "; ".join(map(str, decision.findings)) or "no reason was given"
