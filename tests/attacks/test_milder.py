"""Nothing that an author of jobs may write makes a decision milder, beyond what choosing a runtime allows.

The author has the right `edit` in one namespace: labels and annotations of jobs and templates, owner references,
ConfigMaps, TrainingRuntimes, suspended TrainJobs. Each case is a job of the corpus or of another test, a platform with
any mode for each framework, and something that is written; the same job without it is decided as well. What choosing a
runtime allows is in docs/strategies.md.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import orjson
import pytest
from msgspec import structs

from muster.strategies.documents import findings, runtimes
from muster.strategies.launches.guard_additions import Guard
from muster.strategies.trainer import predictions
from muster.webhook.admission import decisions, reviews
from muster.webhook.admission.policies import Mode
from tests.attacks.scenes import FRAMEWORKS, LENGTHS, MODES, around, of_kind, platform, property_of, put, scene
from tests.fuzz import cases, skeletons
from tests.support import admissions, jobs

MODE = "muster.dev/mode"
APPLIED = "muster.dev/applied"
MILDEST_FIRST = (Mode.OFF, Mode.AUDIT, Mode.WARN, Mode.ENFORCE)


class Outcome(NamedTuple):
    """What both phases together say about a job."""

    mode: int  # 0 is the mildest
    told: int  # 3 refused, 2 warned, 1 recorded, 0 let in
    strategy: str
    findings: list
    changes: list  # their rules


def decide(document, cluster, policy, old=None):
    reader = admissions.make_reader(*cluster)
    how = {} if old is None else {"operation": "UPDATE", "old": old}

    def phase(name, subject):
        body = orjson.dumps(admissions.make_review(subject, **how))
        return decisions.evaluate(reviews.parse(body, name), reader, policy)

    first = phase("mutate", document)
    last = phase("validate", dict(first.document)) if first.allowed else first
    wrong = bool(findings.errors(last.findings)) or last.verdict == "error"
    told = {Mode.OFF: 0, Mode.AUDIT: 1, Mode.WARN: 2, Mode.ENFORCE: 2}[last.mode] if wrong else 0
    changes = [each.rule for each in first.changes]
    told = told if last.allowed else 3
    return Outcome(MILDEST_FIRST.index(last.mode), told, str(last.strategy), [*last.findings], changes)


# --- what has no say -----------------------------------------------------------------------------------------------


def labels_of_a_mode(random, subject, cluster):
    for metadata in (*around(subject), *(each["metadata"] for each in of_kind(cluster, "TrainJob"))):
        for member in ("labels", "annotations"):
            put(metadata, member, MODE, random.choice(MODES))


def labels_of_a_framework_on_a_trainjob(random, subject, cluster):
    for each in of_kind([subject, *cluster], "TrainJob"):
        put(each["metadata"], "labels", jobs.FRAMEWORK, random.choice(FRAMEWORKS))


def words_of_muster(random, subject, cluster):
    del cluster
    for metadata in around(subject):
        word = random.choice(
            ("seats", "lease", "spec-hash", "profiles", "training", "predicted", "gateway", "framework")
        )
        put(metadata, "annotations", f"muster.dev/{word}", random.choice(("off", "{}", "[]", "1")))
        put(metadata, "annotations", jobs.FRAMEWORK, random.choice(FRAMEWORKS))


def a_memory(random, subject, cluster):
    del cluster
    field = random.choice(("spec.trainer", "spec.trainer.command", "spec.replicatedJobs", "spec.network", "x"))
    note = {"strategy": random.choice(FRAMEWORKS), "version": "1", "fields": {field: "-"}, "kept": {field: ["-"]}}
    put(subject["metadata"], "annotations", APPLIED, random.choice((json.dumps(note), "{}", "x", "")))


def runtimes_of_the_same_name(random, subject, cluster):
    named = [(each["spec"].get("runtimeRef") or {}).get("kind") for each in of_kind([subject, *cluster], "TrainJob")]
    for each in of_kind(cluster, "ClusterTrainingRuntime") if "TrainingRuntime" not in named else ():
        made = {**cases.copied(each), "kind": "TrainingRuntime"}
        made["metadata"]["namespace"] = jobs.NAMESPACE
        put(made["metadata"], "labels", jobs.FRAMEWORK, random.choice(FRAMEWORKS))
        cluster.append(made)


NO_SAY = [
    labels_of_a_mode,
    labels_of_a_framework_on_a_trainjob,
    words_of_muster,
    a_memory,
    runtimes_of_the_same_name,
]


@pytest.mark.parametrize("examples", LENGTHS)
@pytest.mark.parametrize("write", NO_SAY)
def test_what_has_no_say_changes_nothing(write, examples):
    def holds(random):
        (subject, cluster), policy = scene(random), platform(random)
        written, about = cases.copied(subject), cases.copied(cluster)
        write(random, written, about)
        assert decide(written, about, policy) == decide(subject, cluster, policy)

    property_of(holds, examples)


@pytest.mark.parametrize("examples", LENGTHS)
@pytest.mark.parametrize("write", [each for each in NO_SAY if each is not a_memory])
def test_what_has_no_say_changes_nothing_of_an_update(write, examples):
    def holds(random):
        subject, after, cluster, policy = update(random)
        written, about = cases.copied([subject, after]), cases.copied(cluster)
        write(random, written[0], about)
        write(random, written[1], [])
        assert decide(written[1], about, policy, written[0])[:4] == decide(after, cluster, policy, subject)[:4]

    property_of(holds, examples)


def update(random):
    """A job, what an update makes of it that Muster refuses or warns of, its cluster and the platform."""
    (subject, cluster), policy = scene(random), platform(random)
    subject["spec"].setdefault("trainer", {})
    after = cases.copied(subject)
    after["spec"].pop(random.choice(("trainer", "network", "suspend")), None)
    return subject, after, cluster, policy


@pytest.mark.parametrize("examples", LENGTHS)
def test_an_update_passes_by_a_forged_memory_only_as_one_that_changes_nothing_of_it(examples):
    def holds(random):
        subject, after, cluster, policy = update(random)
        before = decide(after, cluster, policy, subject)
        a_memory(random, subject, cluster)
        body = orjson.dumps(admissions.make_review(after, operation="UPDATE", old=subject))
        reader = admissions.make_reader(*cluster)
        stored = decisions.evaluate(reviews.parse(body, "mutate"), reader, policy).document
        now = decide(after, cluster, policy, subject)
        assert now.mode >= before.mode or not now.findings
        assert now.told >= before.told or stored["spec"].get("trainer") == subject["spec"].get("trainer")

    property_of(holds, examples)


# --- the guard ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("examples", LENGTHS)
def test_the_guard_and_what_is_written_about_it_decide_nothing_about_a_job(examples):
    """It is added to what is let in, and what is let in stays the same, whatever a label or the pod spec says of it."""

    def holds(random):
        (subject, cluster), policy = scene(random), platform(random)
        offered = Guard(random.choice(("open", "always")), random.choice(("init", "image")), "example.org/muster:1")
        written, about = cases.copied(subject), cases.copied(cluster)
        for metadata in (*around(written), *(each["metadata"] for each in of_kind(about, "TrainJob"))):
            if random.random() < 0.5:
                put(metadata, "labels", "muster.dev/guard", random.choice(("off", "report", "enforce", "x")))
        after = decide(written, about, structs.replace(policy, guard=offered))
        before = decide(subject, cluster, policy)
        assert after[:3] == before[:3]
        assert findings.errors(after.findings) == findings.errors(before.findings)

    property_of(holds, examples)


# --- what governs ----------------------------------------------------------------------------------------------------


def forged_snapshot(random, cluster):
    """A ConfigMap with the name of Trainer's snapshot, for the TrainJob of a cluster."""
    (owner,), runtime = of_kind(cluster, "TrainJob"), of_kind(cluster, "ClusterTrainingRuntime", "TrainingRuntime")[0]
    runtime = cases.copied(runtime)
    put(runtime["metadata"], "labels", jobs.FRAMEWORK, random.choice((*FRAMEWORKS, "")))
    if random.random() < 0.5:
        policies = ({}, {"numNodes": 64, "torch": {}}, {"mpi": {}}, {"numNodes": 1}, {"torch": {"numProcPerNode": 8}})
        runtime["spec"]["mlPolicy"] = random.choice(policies)
    if random.random() < 0.3:
        for member in ("labels", "annotations"):
            runtime["metadata"][member] = {jobs.FRAMEWORK: runtime["metadata"]["labels"][jobs.FRAMEWORK], MODE: "off"}
    made = skeletons.snapshot(owner, runtime)
    (reference,) = made["metadata"]["ownerReferences"]
    reference["controller"] = random.random() < 0.8
    if random.random() < 0.2:
        del made["metadata"]["ownerReferences"]
    if random.random() < 0.2:
        made["data"] = {"runtime": random.choice(("", "{", "- a", "metadata: {}", "metadata: {labels: trl}"))}
    return made


@pytest.mark.parametrize("examples", LENGTHS)
def test_a_config_map_makes_the_decision_about_a_jobset_of_a_trainjob_no_milder(examples):
    def holds(random):
        (subject, cluster), policy = scene(random, "owned"), platform(random)
        if not of_kind(cluster, "TrainJob"):
            return
        cluster = [each for each in cluster if each["kind"] != "ConfigMap"]
        if random.random() < 0.2:
            cluster = [each for each in cluster if not each["kind"].endswith("TrainingRuntime")] or cluster
        given = [*cluster, jobs.make_runtime()] if not of_kind(cluster, "ClusterTrainingRuntime") else cluster
        after, before = (
            decide(subject, [*cluster, forged_snapshot(random, given)], policy),
            decide(subject, cluster, policy),
        )
        assert after.mode >= before.mode
        assert after.told >= before.told

    property_of(holds, examples)


def owned(random, subject, cluster):
    """Write the owner of a JobSet, a TrainJob of the author, with a runtime of the cluster, of the author or none."""
    own = {**jobs.make_runtime("written-by-me", framework=random.choice(FRAMEWORKS)), "kind": "TrainingRuntime"}
    own["metadata"]["namespace"] = jobs.NAMESPACE
    theirs = [jobs.make_runtime(f"{each}-runtime", framework=each) for each in FRAMEWORKS]
    named = random.choice([own, random.choice(theirs), jobs.make_runtime("none")])
    ghost = jobs.make_trainjob("ghost", metadata={"uid": "1"}, spec={"suspend": True})
    ghost["spec"]["runtimeRef"] = {"name": named["metadata"]["name"], "kind": named["kind"]}
    cluster += [own, *theirs, *([ghost] if random.random() < 0.8 else [])]
    reference = {"apiVersion": ghost["apiVersion"], "kind": "TrainJob", "name": "ghost", "uid": "1", "controller": True}
    subject["metadata"]["ownerReferences"] = [reference]
    return ghost


@pytest.mark.parametrize("examples", LENGTHS)
def test_an_owner_makes_a_decision_milder_by_the_mode_of_its_cluster_runtime_alone(examples):
    def holds(random):
        (subject, cluster), policy = scene(random, "JobSet"), platform(random)
        if random.random() < 0.3:
            subject["metadata"]["name"] = "ghost"
        written, about = cases.copied(subject), cases.copied(cluster)
        ghost = owned(random, written, about)
        after, before = decide(written, about, policy), decide(subject, cluster, policy)
        allowed = min(before.mode, decide(ghost, about, policy).mode)
        assert after.mode >= allowed
        waits = {each.rule for each in findings.errors(before.findings)} == {"claims/full"}
        if after.mode >= before.mode and not waits:
            assert after.told >= before.told

    property_of(holds, examples)


@pytest.mark.parametrize("examples", LENGTHS)
def test_the_jobset_that_trainer_makes_of_a_job_that_was_let_in_is_let_in(examples):
    """It is judged as one of an author, since nothing tells them apart."""

    def holds(random):
        (subject, cluster), policy = scene(random, "TrainJob"), platform(random, mode="enforce")
        reader, version = admissions.make_reader(*cluster), random.choice([*runtimes.VERSIONS.values()])
        reader.trainer = version
        subject["metadata"] = {"name": "llama", "uid": jobs.UID, **subject["metadata"]}
        made = admissions.decide(subject, reader=reader, policy=policy)
        job, runtime = cases.copied(dict(made.document)), made.governor.runtime
        last = admissions.decide(job, reader=reader, policy=policy, phase="validate")
        if not last.allowed or runtime is None:
            return
        try:
            jobset = cases.copied(dict(predictions.predict(job, runtime, jobs.NAMESPACE).jobset))
        except predictions.UnpredictableError:
            return
        jobset["metadata"]["ownerReferences"][0]["uid"] = job["metadata"]["uid"]
        about = admissions.make_reader(*cluster, job)
        about.trainer = version
        stored = admissions.decide(jobset, reader=about, policy=policy).document
        assert admissions.decide(dict(stored), reader=about, policy=policy, phase="validate").allowed

    property_of(holds, examples)


@pytest.mark.parametrize("examples", LENGTHS)
def test_a_framework_that_the_author_writes_is_never_milder_than_the_global_mode(examples):
    def holds(random):
        (subject, cluster), policy = scene(random, "TrainJob", "JobSet"), platform(random)
        chosen = random.choice(FRAMEWORKS)
        if subject["kind"] == "JobSet":
            put(subject["metadata"], "labels", jobs.FRAMEWORK, chosen)
        else:
            own = {**jobs.make_runtime("written-by-me", framework=chosen), "kind": "TrainingRuntime"}
            own["metadata"]["namespace"] = jobs.NAMESPACE
            cluster = [*cluster, own]
            subject["spec"]["runtimeRef"] = {"name": "written-by-me", "kind": "TrainingRuntime"}
        assert decide(subject, cluster, policy).mode >= MILDEST_FIRST.index(policy.mode)

    property_of(holds, examples)


# --- what asks -------------------------------------------------------------------------------------------------------

ASKED = {
    "muster.dev/rendezvous": ("static", "c10d", "x"),
    "muster.dev/claim-profile": ("quad", "seats", "none"),
    "muster.dev/resource-claims": ('[{"name": "gpu", "profile": "plain"}]', "x"),
    "muster.dev/trl-method": ("sft", "grpo", "x"),
    "muster.dev/vllm-features": ("sleep", "lora", "x"),
    "muster.dev/role": ("trainer", "sampler", "x"),
    jobs.FRAMEWORK: FRAMEWORKS,
}


@pytest.mark.parametrize("examples", LENGTHS)
def test_what_a_job_asks_for_changes_neither_its_mode_nor_its_strategy(examples):
    """An annotation may mend a job. The mode in which it is judged stays."""

    def holds(random):
        (subject, cluster), policy = scene(random), platform(random)
        written = cases.copied(subject)
        for metadata in random.sample([*around(written)], 1):
            key = random.choice([*ASKED])
            if key != jobs.FRAMEWORK or metadata is not written["metadata"]:
                for member in ("labels", "annotations"):
                    put(metadata, member, key, random.choice(ASKED[key]))
        after, before = decide(written, cluster, policy), decide(subject, cluster, policy)
        assert (after.mode, after.strategy) == (before.mode, before.strategy)

    property_of(holds, examples)
