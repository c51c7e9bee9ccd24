"""The test kit passes strategies that keep the rules of mutation, and names each rule that one breaks."""

from __future__ import annotations

import itertools
import pathlib
import re
import subprocess
import sys

import pytest

from muster import testing
from muster.strategies import TorchFamily, error, find_site, warning
from muster.strategies.changes import restores
from muster.strategies.frameworks import builtin

LAUNCHES = {
    "torch": [["torchrun", "train.py"], ["accelerate", "launch", "train.py"]],
    "torchtune": [["tune", "run", "full_finetune_single_device", "--config", "llama3_2/1B_full"]],
    "trl": [["trl", "sft", "--model_name_or_path", "m", "--dataset_name", "d"], ["torchrun", "-m", "trl.scripts.dpo"]],
    "vllm": [["vllm", "serve", "m"]],
}
COMMAND = ("spec", "trainer", "command")
ENV = ("spec", "trainer", "env")
WHY = {"rule": "acme/launcher", "reason": "the launcher must be told where the nodes are"}
COUNTER = itertools.count()


def jobs(framework):
    """The samples of a framework; vLLM's jobs are JobSets."""
    found = testing.samples(framework, *LAUNCHES.get(framework, [["acme", "train"]]))
    return [each for each in found if framework != "vllm" or each.job["kind"] == "JobSet"]


@pytest.mark.parametrize("framework", LAUNCHES)
def test_the_strategies_that_muster_ships_pass(framework):
    testing.check_rules(builtin.load(plugins=False).get(framework).strategy, jobs(framework))


class Acme(TorchFamily):
    """Adds a flag to `acme train`, as it should be done."""

    framework = "acme"

    def enforce_command(self, job, changes):
        self.prepare(job, changes)
        site = find_site(job)
        if site is None or site.argv[:1] != ("acme",) or "--nodes" in site.argv or job.owner is not None:
            return
        site.write(changes, (*site.command, "--nodes"), site.args, **WHY)


class WritesIntoTheDocument(Acme):
    def enforce_rendezvous(self, job, _changes):
        job.document["metadata"]["labels"] = {}


class RecordsNoJson(Acme):
    def enforce_rendezvous(self, _job, changes):
        changes.set(("metadata", "annotations", "acme"), ("a", "b"), **WHY)


class ReadsMembersOfOthers(Acme):
    def enforce_rendezvous(self, job, changes):
        for key in sorted(set(job.document["spec"]) - {"trainer", "runtimeRef", "suspend"})[:1]:
            changes.set(("metadata", "annotations", "acme"), key, **WHY)


class ReplacesOnTheJobset(Acme):
    def enforce_rendezvous(self, job, changes):
        if job.kind == "JobSet" and job.owner is not None:
            changes.set((*job.container.path, "image"), "example.org/other:1", **WHY)


class AddsEachTime(Acme):
    def enforce_rendezvous(self, job, changes):
        if job.kind == "TrainJob":
            changes.append(("spec", "podTemplateOverrides"), {"targetJobs": []}, **WHY)


class NeedsTheName(Acme):
    def enforce_rendezvous(self, job, changes):
        if job.kind == "TrainJob":
            changes.set(("metadata", "annotations", "acme"), f"job {job.name}", **WHY)


class LooksAtSuspend(Acme):
    def enforce_rendezvous(self, job, changes):
        if job.kind == "TrainJob" and not job.document["spec"].get("suspend"):
            changes.set(("metadata", "annotations", "acme"), "runs", **WHY)


class ReplacesPrograms(Acme):
    def enforce_command(self, job, changes):
        if job.kind == "TrainJob" and job.trainer.command:
            changes.set(COMMAND, ["acme", "train", "--nodes"], **WHY)


class ReplacesVariables(Acme):
    def enforce_rendezvous(self, job, changes):
        if job.kind == "TrainJob" and job.trainer.env:
            changes.set((*ENV, 0, "value"), "2", **WHY)


class ReadsAFile(Acme):
    def validate(self, job):
        pathlib.Path(__file__).read_bytes()
        return super().validate(job)


class Counts(Acme):
    def enforce_rendezvous(self, _job, changes):
        changes.set(("metadata", "annotations", "acme"), str(next(COUNTER)), **WHY)


class RefusesItsOwn(Acme):
    def validate(self, job):
        site = find_site(job)
        if site is not None and "--nodes" in site.argv:
            yield error(f"{site.place}.command", None, "this launcher has no such flag at all", rule="acme/flag")


class QuotesASecret(Acme):
    def validate(self, job):
        for entry in job.trainer.env:
            yield warning("spec.trainer.env", entry.value, "is a variable that acme ignores", rule="acme/env")


class SaysWhatItLikes(Acme):
    def validate(self, _job):
        yield warning("spec", None, "This is wrong.", rule="Something")


class ComparesEachWithEach(Acme):
    def validate(self, job):
        words = job.trainer.args or ()
        for one, other in itertools.product(words, words):
            if one.startswith(other) and one != other and one.strip(other) == "=":
                yield warning("spec", None, "is there twice, which acme does not take", rule="acme/twice")


class Fails(Acme):
    def enforce_claims(self, *_):
        raise RuntimeError("no claims here")


FEW = [each for each in jobs("acme") if "numProcPerNode 1" in each.name or "python" in each.name]

BROKEN = {
    WritesIntoTheDocument: "it wrote into the job's document",
    RecordsNoJson: "is a list, and must be a string",
    ReadsMembersOfOthers: "Rule 1, fields that Muster does not know",
    ReplacesOnTheJobset: "Rules 2 and 3, the JobSet of a TrainJob is added to",
    AddsEachTime: "Rule 5, a second pass changes nothing",
    NeedsTheName: "Rule 5, the order of webhooks does not matter",
    LooksAtSuspend: "Rule 5, the order of webhooks does not matter",
    ReplacesPrograms: "Rule 6, what is the user's stays",
    ReplacesVariables: "Rule 6, what is the user's stays",
    ReadsAFile: "Rule 7, no side effects",
    Counts: "two decisions about the same job differ",
    RefusesItsOwn: "Rule 8, block as little as possible",
    QuotesASecret: "quotes the value of a secret variable",
    SaysWhatItLikes: "'Something' is not the id of a rule",
    ComparesEachWithEach: "times as many calls; walk each list once",
    Fails: "RuntimeError: no claims here",
}


def test_a_strategy_that_keeps_the_rules_passes():
    testing.check_rules(Acme(), jobs("acme"))


@pytest.mark.parametrize("broken", BROKEN)
def test_a_strategy_that_breaks_a_rule_is_told_which(broken):
    with pytest.raises(AssertionError) as caught:
        testing.check_rules(broken(), FEW)
    assert BROKEN[broken] in str(caught.value)
    assert len(str(caught.value).splitlines()) < 25


def test_a_replaced_value_that_is_not_given_back_is_told(monkeypatch):
    monkeypatch.setattr(restores, "restore", lambda *_: None)
    with pytest.raises(AssertionError, match="Rule 4, what was replaced is given back: the same file applied again"):
        testing.check_rules(Acme(), FEW)


def test_a_problem_of_many_jobs_is_told_once():
    with pytest.raises(AssertionError) as caught:
        testing.check_rules(Fails(), jobs("acme"))
    assert re.search(r"no claims here; with acme train, numNodes 1, and \d+ more", str(caught.value))
    assert str(caught.value).count("no claims here") == 1


def test_without_jobs_nothing_is_checked_and_that_is_an_error():
    with pytest.raises(AssertionError, match="there are none"):
        testing.check_rules(Acme(), [])


def test_a_decision_is_that_of_the_webhook_about_a_plugin():
    runtime = testing.make_runtime("acme")
    job = testing.make_trainjob(command=["acme", "train"], numNodes=2)
    decision = testing.mutate(Acme(), job, runtime)
    assert decision.document["spec"]["trainer"]["command"] == ["acme", "train", "--nodes"]
    assert not decision.strategy.in_tree
    jobset = testing.jobset_of(decision.document, runtime)
    named = [each.rule for each in testing.mutate(Acme(), jobset, runtime, decision.document).changes]
    assert "acme/master-addr" in named
    assert testing.validate(Acme(), decision.document, runtime).verdict == "allowed"


def test_a_jobset_has_the_roles_that_are_asked_for():
    jobset = testing.make_jobset("acme", roles={"trainer": 2, "sampler": 3})
    sizes = {each["name"]: each["template"]["spec"]["parallelism"] for each in jobset["spec"]["replicatedJobs"]}
    assert sizes == {"trainer": 2, "sampler": 3}
    assert testing.validate(Acme(), jobset).verdict == "allowed"


def test_trainers_in_python_do_not_pay_for_the_kit():
    program = "import sys, muster; sys.exit('muster.testing' in sys.modules or 'jsonpatch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0
