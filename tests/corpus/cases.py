"""Cases of the corpus: a job, what must become of it, and the upstream source that proves it.

A case is a file of documents, as `muster check -f` reads it. The comment at its head is YAML:

* `expect`: the end, or the ends that are equally true, with | between them. `right`: no error, no warning, and nothing
  changed but the rendezvous that Muster adds; `changed`: the same, and more was changed; `noted`: no error, no warning,
  and a note says what Muster cannot see; `warned`: a warning and no error; `refused`: an error.
* `source`: the upstream file or document that proves it, with its version.
* `why`: one sentence.
* `world`: the number of processes of the launch. MUSTER_EXPECTED_WORLD_SIZE has to be this number or be missing; with
  `told: true` it may not be missing, and `world: none` allows no number at all.
* `says`, `unsaid`: a text that has to stand, or may not stand, in a finding or in the reason of a change.
* `holds`, `lacks`: words that the command line of the JobSet has to hold, or may not hold.
* `wins`: for a flag that stands several times there, the value that stands last.
* `env`: env of the container that launches: a value, `present`, or `absent`.
* `into`: the containers that get MASTER_ADDR; no others may.
* `untouched`: replicated jobs of a JobSet that stay as they came.
* `probes`: `http` or `none`.
* `reports`: rule ids that have to be among the findings; of a head that also allows silence, where it is not silent.
  `unreadable` stands for a document that cannot be read. A case that may be warned of or refused names its rules.
* `trainer`: the version of Trainer that the cluster has, in quotes; the newest release without it.
* `needs`: `dry-run` for a job of which Muster says nothing, and an API server refuses a pod or a Job (decision 0048);
  `e2e/suites/rights/test_dry_runs.py` asks one about all of them.
* `update`: with `true` the first job of the file is created, and the second is merged into what Muster made of it, as
  `kubectl apply` and patches of controllers do; null takes a member away. Only the update is judged, and nothing may be
  changed by it but what Muster gives back.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from muster.strategies.documents.findings import Finding, Severity
from muster.strategies.documents.runtimes import VERSIONS
from muster.webhook.cli import cases as decided
from muster.webhook.cli import problems
from muster.webhook.kubeyaml import sources
from muster.webhook.kubeyaml.sources import Source

FOLDER = Path(__file__).parent / "cases"
OPEN = Path(__file__).parent / "OPEN"
ENDS = frozenset({"right", "changed", "noted", "warned", "refused"})
LOUD = frozenset({"warned", "refused"})
MEMBERS = frozenset(
    {"expect", "source", "why", "world", "told", "says", "unsaid", "holds", "lacks", "wins", "env", "reports"}
    | {"into", "untouched", "probes", "update", "trainer", "needs"}
)


@dataclass(frozen=True)
class Outcome:
    """What Muster makes of the documents of a case.

    Attributes:
        findings: all findings, those of the JobSet that follows included.
        refusals: further reasons why nothing would run, such as a document that cannot be read.
        changes: what was changed besides additions of bookkeeping and rendezvous: `path: reason`.
        reasons: of all changes.
        jobsets: JobSets as the cluster would store them, but for those of another shape.
        given: the JobSets before Muster's decision.
    """

    findings: list[Finding]
    refusals: list[str]
    changes: list[str]
    reasons: list[str]
    jobsets: list[dict[str, Any]]
    given: list[dict[str, Any]]

    @property
    def ends(self) -> set[str]:
        """The ends that this is."""
        severities = {each.severity for each in self.findings}
        if self.refusals or Severity.ERROR in severities:
            return {"refused"}
        if Severity.WARNING in severities:
            return {"warned"}
        ends = {"changed" if self.changes else "right"}
        return ends | ({"noted"} if Severity.NOTE in severities else set())

    @property
    def rules(self) -> set[str]:
        """The rules that are reported."""
        return {each.rule for each in self.findings} | ({"unreadable"} if self.refusals else set())

    @property
    def texts(self) -> list[str]:
        """Everything that is said."""
        return [*map(str, self.findings), *self.refusals, *self.reasons]


def names() -> list[str]:
    """Return the cases, each as `folder/name`."""
    return sorted(str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.glob("*/*.yaml"))


def refused_by_dry_runs() -> list[str]:
    """Return the cases that only an API server refuses."""
    return [name for name in names() if expectation(name).get("needs") == "dry-run"]


def path_of(name: str) -> Path:
    """Return the file of a case."""
    return FOLDER / f"{name}.yaml"


def still_open() -> list[str]:
    """Return the cases that are known to fail."""
    lines = (line.partition("#")[0].strip() for line in OPEN.read_text().splitlines())
    return [line for line in lines if line]


@functools.cache
def expectation(name: str) -> dict[str, Any]:
    """Return the head of a case."""
    lines = path_of(name).read_text().splitlines()
    end = next(number for number, line in enumerate(lines) if not line.startswith("#"))
    head = yaml.safe_load("\n".join(line.removeprefix("#").removeprefix(" ") for line in lines[:end]))
    assert isinstance(head, dict), f"{name} has no head"
    return head


def ends_of(name: str) -> set[str]:
    """Return the ends that a case may have."""
    return {each.strip() for each in str(expectation(name)["expect"]).split("|")}


@functools.cache
def outcome(name: str) -> Outcome:
    """Decide about a case as `muster check` and `muster explain` do: mutation, validation, then the JobSet of each."""
    trainer = VERSIONS.get(expectation(name).get("trainer"))
    names = {"paths": [str(path_of(name))], "filename": [], "runtimes": [], "namespace": "default"}
    args = argparse.Namespace(**names, config=None, trainer=trainer)
    given = sources.read(args.paths)
    update = None
    if expectation(name).get("update"):
        update = [source for source in given.sources if decided.is_job(source)][1]
        given.sources.remove(update)
    try:
        setup = decided.setup(args, given)
    except problems.CommandError as error:
        return Outcome([], [str(error)], [], [], [], [])
    found = list(_decided(setup)) if update is None else [_updated(setup, update)]
    jobs = [case for case in found if case.source.kind == "JobSet" and not case.misfits]
    return Outcome(
        findings=[each for case in found for each in case.findings],
        refusals=[str(each) for each in setup.unreadable] + [case.failure for case in found if case.failure],
        changes=[text for case in found for text in _substantial(case)],
        reasons=[change.reason for case in found for change in case.mutated.changes],
        jobsets=[dict(case.document) for case in jobs],
        given=[dict(case.source.document) for case in jobs],
    )


def _decided(setup: decided.Setup) -> Iterator[decided.Case]:
    for source in setup.sources:
        if decided.is_job(source):
            case = setup.decide(source)
            yield case
            following = decided.follow(case, setup)
            if following is not None:
                yield following


def _updated(setup: decided.Setup, update: Source) -> decided.Case:
    """Create the only job, and return the update of it."""
    (first,) = (source for source in setup.sources if decided.is_job(source))
    stored = setup.decide(first).document
    return setup.decide(replace(update, document=_merged(stored, update.document)), old=stored)


def _merged(stored: Any, patch: Any) -> Any:
    """Apply a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    held = stored if isinstance(stored, dict) else {}
    every = {key: _merged(held.get(key), patch[key]) if key in patch else held[key] for key in {**held, **patch}}
    return {key: value for key, value in every.items() if not (key in patch and value is None)}


def _substantial(case: decided.Case) -> Iterator[str]:
    """Yield changes but for `spec.trainer: {}`, metadata, and what is added to the env, volumes and claims of a pod."""
    for change in case.mutated.changes:
        inside = change.field.startswith(("metadata", "spec.template.metadata"))
        empty = change.field == "spec.trainer" and not change.after
        added = change.op == "add" and case.source.kind == "JobSet" and ".env" in change.field
        if not (inside or empty or added):
            yield f"{change.field}: {change.reason}"


def containers(jobset: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the containers of a JobSet's pods."""
    pods = (job["template"]["spec"]["template"].get("spec", {}) for job in jobset["spec"]["replicatedJobs"])
    return [container for pod in pods for container in pod.get("containers", ())]


def launches(found: Outcome) -> list[list[str]]:
    """Return the command lines of all containers that have one."""
    every = [container for jobset in found.jobsets for container in containers(jobset)]
    lines = [[*(each.get("command") or ()), *(each.get("args") or ())] for each in every]
    return [line for line in lines if line]


def env_of(found: Outcome) -> list[dict[str, Any]]:
    """Return the env of each container: values by name, `valueFrom` as it is."""
    every = [container for jobset in found.jobsets for container in containers(jobset)]
    return [
        {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in each.get("env") or ()} for each in every
    ]
