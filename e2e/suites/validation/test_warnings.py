"""kubectl shows a warning for what starts too little; what Muster does not know stays as it was written."""

from __future__ import annotations

from e2e.suites.support import documents
from e2e.suites.support.spaces import JOBSETS
from e2e.suites.validation import jobs

CONTAINER = "spec.replicatedJobs[node].template.spec.template.spec.containers[node]"
NOT_ENFORCED = "spec.trainer.command: 'bash -c': this command line starts nothing that trains"


def differences(sent, stored):
    """Members that were sent and are not stored just so; numbers of resources as JobSet's Go code writes them."""
    if isinstance(sent, dict) and isinstance(stored, dict):
        return [each for key, value in sent.items() for each in differences(value, stored.get(key))]
    if isinstance(sent, list) and isinstance(stored, list) and len(sent) == len(stored):
        return [each for pair in zip(sent, stored, strict=True) for each in differences(*pair)]
    return [] if sent == stored or str(sent) == stored else [(sent, stored)]


def test_a_warning_is_shown_by_kubectl(space):
    outcome = space.apply(jobs.script()).expect()
    (warning,) = outcome.warnings
    assert warning.startswith(NOT_ENFORCED)


def test_a_warning_is_shown_in_a_dry_run(space):
    outcome = space.apply(jobs.script(), dry_run=True).expect()
    assert [each.startswith(NOT_ENFORCED) for each in outcome.warnings] == [True]


def test_a_job_that_is_warned_about_is_stored_as_it_is(space):
    job = jobs.script()
    space.apply(job).expect()
    assert space.trainjob("script")["spec"]["trainer"] == job["spec"]["trainer"]


def test_a_launch_inside_a_shell_that_cannot_span_the_nodes_is_refused(space):
    trainer = {"command": ["bash", "-c"], "args": ["pip list; accelerate launch train.py"], "numNodes": 2}
    outcome = space.apply(jobs.script(trainer=trainer))
    assert outcome.refused_with("accelerate starts one plain process on each of the 2 nodes")


def test_a_job_that_is_mended_is_not_warned_about(space):
    outcome = space.apply(jobs.sft()).expect()
    assert outcome.err == ""
    assert space.trainjob("sft")["spec"]["trainer"]["command"] == jobs.MENDED


def test_a_refused_job_shows_its_warnings_too(space):
    outcome = space.apply(jobs.script(annotations={"muster.dev/rendezvous": "quick"}))
    assert outcome.refused_with("metadata.annotations[muster.dev/rendezvous]: Invalid value: 'quick'")
    assert [each.startswith("spec.trainer.command: ") for each in outcome.warnings] == [True]


def test_a_jobset_is_warned_about_as_well(space):
    gpus = {"limits": {"nvidia.com/gpu": 2}}
    server = documents.jobset("server", "vllm", args=["--tensor-parallel-size=1"], resources=gpus, suspend=True)
    warnings = space.apply(server).expect().warnings
    assert [each.partition(": ")[0] for each in warnings] == [f"{CONTAINER}.args"] * 2
    assert sorted("the job names no model" in each for each in warnings) == [False, True]
    assert space.get(JOBSETS, "server") is not None


def test_what_muster_does_not_know_survives_its_changes(space):
    pod = {
        "shareProcessNamespace": True,
        "hostAliases": [{"ip": "192.0.2.1", "hostnames": ["registry.internal"]}],
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 7,
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
    }
    container = {
        "lifecycle": {"preStop": {"exec": {"command": ["sync"]}}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}, "seccompProfile": {"type": "Unconfined"}},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "stdin": True,
    }
    job = jobs.sampler()
    spec = job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    spec |= pod
    spec["containers"][0] |= container
    job["spec"] |= {"ttlSecondsAfterFinished": 60, "failurePolicy": {"maxRestarts": 2}}
    job["metadata"] |= {"finalizers": [], "labels": {**job["metadata"]["labels"], "team.example.org/cost": "7"}}
    space.apply(job).expect()
    stored = space.get(JOBSETS, "sampler")
    assert "muster.dev/applied" in stored["metadata"]["annotations"]
    was, now = (each["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"] for each in (job, stored))
    assert differences({**was, "containers": []}, {**now, "containers": []}) == []
    kept = {key: value for key, value in was["containers"][0].items() if key not in ("args", "command", "env")}
    assert differences(kept, now["containers"][0]) == []
    assert differences({**job["spec"], "replicatedJobs": []}, {**stored["spec"], "replicatedJobs": []}) == []


def test_a_field_that_the_api_does_not_know_is_refused_by_the_api_as_ever(space):
    outcome = space.apply(jobs.sft(trainer={"colour": "red"}))
    assert outcome.refused_with('unknown field "spec.trainer.colour"')


def test_a_field_that_the_api_drops_with_a_warning_is_no_trouble(space):
    outcome = space.apply(jobs.sft(trainer={"colour": "red"}), options=("--validate=warn",)).expect()
    assert outcome.warnings == ['unknown field "spec.trainer.colour"']
    trainer = space.trainjob("sft")["spec"]["trainer"]
    assert trainer["command"] == jobs.MENDED
    assert "colour" not in trainer
