"""The four modes, and whose word counts: the namespace's, then the framework's, then the global one."""

from __future__ import annotations

import itertools

import orjson
import pytest
import yaml
from msgspec import structs

from muster.strategies.frameworks import builtin
from muster.webhook.admission import decisions, governors, reviews
from muster.webhook.admission.policies import FrameworkPolicy, Mode, Policy
from muster.webhook.cluster import readers
from tests.support import admissions, jobs

REGISTRY = builtin.load(plugins=False)
LABELS = [*(mode.value for mode in Mode), None, "", "Enforce", "on"]
JOB = jobs.make_trainjob(
    command=["trl", "sft"], args=["--accelerate_config", "mine.yaml"], numNodes=2, numProcPerNode=0
)
FIXABLE = jobs.make_trainjob(command=["trl", "sft"], numNodes=2)
RUNTIME = jobs.make_runtime()


def policy(mode, framework=None):
    frameworks = {"trl": FrameworkPolicy(framework)} if framework else {}
    return Policy(registry=REGISTRY, mode=mode, frameworks=frameworks)


@pytest.mark.parametrize(("label", "framework", "whole"), [*itertools.product(LABELS, [*Mode, None], Mode)])
def test_the_nearest_word_wins(label, framework, whole):
    named = Mode(label) if label in {mode.value for mode in Mode} else None
    decision = admissions.decide(FIXABLE, RUNTIME, jobs.make_namespace(label), policy=policy(whole, framework))
    assert decision.mode is (named or framework or whole)


def test_a_framework_of_another_name_does_not_speak():
    chosen = Policy(registry=REGISTRY, frameworks={"torch": FrameworkPolicy(Mode.OFF)})
    assert admissions.decide(FIXABLE, RUNTIME, policy=chosen).mode is Mode.ENFORCE


def test_a_label_that_is_no_mode_is_reported_and_passed_over():
    decision = admissions.decide(FIXABLE, RUNTIME, jobs.make_namespace("Off"))
    assert decision.verdict == "patched"
    assert [found.rule for found in decision.findings] == ["core/mode"]


def mutated(mode):
    return admissions.respond(FIXABLE, RUNTIME, policy=policy(mode))


def validated(mode):
    return admissions.respond(JOB, RUNTIME, policy=policy(mode), phase="validate")


def test_enforce_patches_and_denies():
    assert admissions.patch_of(mutated(Mode.ENFORCE))[0]["path"] == "/spec/trainer/command"
    assert validated(Mode.ENFORCE)["allowed"] is False


def test_warn_patches_nothing_and_says_what_it_would_change_and_refuse():
    response = mutated(Mode.WARN)
    assert "patch" not in response
    assert response["warnings"][0].startswith("Muster would replace spec.trainer.command: ")
    assert not any("applied" in warning for warning in response["warnings"])
    refused = validated(Mode.WARN)
    assert refused["allowed"] is True
    assert any(
        warning.startswith("Muster would refuse: ") and "numProcPerNode: 0: must be at least 1" in warning
        for warning in refused["warnings"]
    )


def test_audit_patches_nothing_says_nothing_and_records_all():
    for response in (mutated(Mode.AUDIT), validated(Mode.AUDIT)):
        assert response["allowed"] is True
        assert "patch" not in response
        assert "warnings" not in response
        assert response["auditAnnotations"]["mode"] == "audit"
    decision = admissions.decide(FIXABLE, RUNTIME, policy=policy(Mode.AUDIT))
    assert next(iter(decision.changes)).field == "spec.trainer.command"
    assert decision.document == FIXABLE


def test_off_looks_at_nothing():
    for response in (mutated(Mode.OFF), validated(Mode.OFF)):
        assert response == {"uid": admissions.UID, "allowed": True}


@pytest.mark.parametrize("mode", Mode)
def test_the_recorded_changes_are_the_same_in_every_mode_that_looks(mode):
    decision = admissions.decide(FIXABLE, RUNTIME, policy=policy(mode))
    fields = [change.field for change in decision.changes]
    assert fields == ([] if mode is Mode.OFF else ["spec.trainer.command", "metadata.annotations"])


@pytest.mark.parametrize("mode", Mode)
def test_an_edit_that_would_wedge_the_job_is_denied_only_under_enforcement(mode):
    old, new = jobs.make_trainjob(), jobs.make_trainjob(command=["x"])
    response = admissions.respond(new, RUNTIME, operation="UPDATE", old=old, phase="validate", policy=policy(mode))
    assert response["allowed"] is (mode is not Mode.ENFORCE)
    assert bool(response.get("warnings")) is (mode is Mode.WARN)


def test_a_namespace_that_is_off_is_let_alone_although_its_snapshot_is_broken():
    jobset = jobs.make_jobset("llama", metadata={"ownerReferences": [OWNER]})
    for mode, verdict in (("off", "skipped"), ("audit", "error"), ("enforce", "error")):
        decision = admissions.decide(jobset, BROKEN, jobs.make_namespace(mode))
        assert (decision.verdict, decision.allowed) == (verdict, mode != "enforce")


@pytest.mark.parametrize(
    ("label", "framework"), [*itertools.product([*(mode.value for mode in Mode), None], [*Mode, None])]
)
def test_a_failure_is_answered_by_the_mode_of_namespace_and_framework(label, framework):
    cluster = admissions.make_reader(RUNTIME, jobs.make_namespace(label))
    request = reviews.parse(orjson.dumps(admissions.make_review(FIXABLE)), "mutate")
    governor = governors.known(request, cluster)
    decision = decisions.failed(request, policy(Mode.ENFORCE, framework), "no memory", governor)
    mode = (Mode(label) if label else None) or framework or Mode.ENFORCE
    assert (decision.mode, decision.allowed) == (mode, mode is not Mode.ENFORCE)
    assert (decision.verdict, decision.message) == ("skipped" if mode is Mode.OFF else "error", "no memory")


class NothingCached:
    whole = True

    def get(self, ref):
        raise readers.NotCached(ref)


@pytest.mark.parametrize("reader", [admissions.make_reader(), NothingCached(), None])
def test_what_is_known_of_a_job_is_told_although_nothing_can_be_read(reader):
    request = reviews.parse(orjson.dumps(admissions.make_review(FIXABLE)), "mutate")
    assert governors.known(request, reader) == governors.Governor()


def test_a_snapshot_that_cannot_be_read_is_no_failure_that_lets_a_job_in():
    jobset = jobs.make_jobset("llama", metadata={"ownerReferences": [OWNER]})
    for mode, label in itertools.product(Mode, (None, "warn")):
        chosen = structs.replace(policy(mode), on_plugin_failure="allow")
        decision = admissions.decide(jobset, BROKEN, jobs.make_namespace(label), policy=chosen)
        assert decision.allowed is (decision.mode is not Mode.ENFORCE)


OFF = Policy(registry=REGISTRY, frameworks={"torchtune": FrameworkPolicy(Mode.OFF)})
GHOST = jobs.make_trainjob("ghost", metadata={"uid": "1"}, spec={"suspend": True})
OWNER_OF_GHOST = {
    "apiVersion": GHOST["apiVersion"],
    "kind": "TrainJob",
    "name": "ghost",
    "uid": "1",
    "controller": True,
}
REFUSED = jobs.make_jobset(
    "ghost",
    framework=None,
    metadata={"ownerReferences": [OWNER_OF_GHOST]},
    container={"resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}}},
)


def validate(document, *cluster, policy=OFF):
    return admissions.decide(document, *cluster, phase="validate", policy=policy)


@pytest.mark.parametrize("references", [None, [{**OWNER_OF_GHOST, "controller": False}], [OWNER_OF_GHOST]])
def test_a_config_map_of_the_author_does_not_switch_muster_off(references):
    """The framework torchtune is off, and no ClusterTrainingRuntime of the job says that it is of torchtune."""
    forged = yaml.safe_dump(jobs.make_runtime(framework="torchtune"))
    metadata = {"name": "ghost-runtime-snapshot", "namespace": jobs.NAMESPACE, "ownerReferences": references}
    snapshot = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"runtime": forged}}
    for cluster in ([RUNTIME, GHOST], [GHOST]):
        assert (validate(REFUSED, *cluster).verdict, validate(REFUSED, *cluster, snapshot).verdict) == ("denied",) * 2


def test_a_runtime_of_the_namespace_does_not_switch_muster_off_and_one_of_the_cluster_does():
    tuned = jobs.make_runtime(framework="torchtune")
    own = {**tuned, "kind": "TrainingRuntime", "metadata": {**tuned["metadata"], "namespace": jobs.NAMESPACE}}
    named = jobs.make_trainjob(spec={"runtimeRef": {"name": "trl-distributed", "kind": "TrainingRuntime"}})
    assert (validate(named, own).mode, validate(jobs.make_trainjob(), tuned).mode) == (Mode.ENFORCE, Mode.OFF)


def test_a_label_on_the_jobset_of_a_trainjob_may_make_it_stricter():
    strict = Policy(registry=REGISTRY, mode=Mode.WARN, frameworks={"vllm": FrameworkPolicy(Mode.ENFORCE)})
    labelled = jobs.make_jobset("ghost", framework="vllm", metadata={"ownerReferences": [OWNER_OF_GHOST]})
    assert validate(labelled, RUNTIME, GHOST, policy=strict).mode is Mode.ENFORCE


@pytest.mark.parametrize("cluster", [[], [GHOST], [GHOST, RUNTIME]])
def test_an_owner_that_the_author_wrote_leaves_nothing_of_a_jobset_unjudged(cluster):
    """Most rules leave to the TrainJob what they found when it was created."""
    decision = validate(REFUSED, *cluster)
    assert decision.verdict == "denied"
    assert [each.field.endswith("requests[nvidia.com/gpu]") for each in decision.findings] == [True]


OWNER = {"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "name": "llama", "controller": True}
BROKEN = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "llama-runtime-snapshot", "namespace": jobs.NAMESPACE},
    "data": {"runtime": "{"},
}
