"""A job that cannot work is refused where it is written: by kubectl, with every mistake and its field path."""

from __future__ import annotations

import pytest

from e2e.suites.support import documents, thorough, waits
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS
from e2e.suites.validation import jobs

WAYS = {
    "apply": lambda space, job: space.apply(job),
    "server-side apply": lambda space, job: space.apply(job, server_side=True),
    "create": lambda space, job: space.create(job),
    "dry run": lambda space, job: space.apply(job, dry_run=True),
}
FAILURES = ("InternalError", "Muster failed", "failed calling webhook", "panic", "Traceback")


def lines(outcome):
    """The mistakes that kubectl lists, by field."""
    shown = [line.removeprefix("* ") for line in outcome.err.splitlines() if "(muster " in line]
    return {line.partition(": ")[0]: line for line in shown}


def recorded(installation, space, phase):
    def look():
        return [each for each in installation.audit(space.name) if each["phase"] == phase]

    return waits.until(f"a record of {phase}", look, 10)[0]


@pytest.mark.parametrize("way", thorough.but("apply", "dry run", of=WAYS))
def test_every_mistake_is_shown_with_its_field_path(space, way):
    outcome = WAYS[way](space, jobs.wrong())
    assert outcome.refused_with('The TrainJob "wrong" is invalid')
    assert {field: words in lines(outcome)[field] for field, words in jobs.MISTAKES.items()} == dict.fromkeys(
        jobs.MISTAKES, True
    )
    assert len(lines(outcome)) == len(jobs.MISTAKES)


def test_a_mistake_names_its_value_and_the_rule(space):
    outcome = space.apply(jobs.wrong())
    line = lines(outcome)["spec.trainer.numNodes"]
    assert line == "spec.trainer.numNodes: Invalid value: 0: must be at least 1 (muster core/numbers)"


def test_what_is_missing_is_called_required(space):
    outcome = space.apply(jobs.sft(args=["--output_dir=/x"]))
    assert outcome.refused_with("spec.trainer.args: Required value: --model_name_or_path is missing")
    assert outcome.refused_with("spec.trainer.args: Required value: --dataset_name is missing")


def test_a_job_whose_name_is_to_be_generated_is_refused_too(space):
    outcome = space.create(jobs.wrong("wrong-", generate=True))
    assert set(lines(outcome)) == set(jobs.MISTAKES)
    assert space.all(TRAINJOBS) == []


def test_nothing_of_a_refused_job_is_stored(space):
    assert not space.apply(jobs.wrong()).ok
    assert space.all(f"{TRAINJOBS},{JOBSETS},jobs.batch,pods") == []
    assert [each["metadata"]["name"] for each in space.all("configmaps")] in ([], ["kube-root-ca.crt"])


def test_a_refused_job_does_not_hold_up_the_good_one_beside_it(space):
    outcome = space.apply(jobs.wrong(), jobs.sft())
    assert outcome.refused_with('"wrong" is invalid')
    assert [each["metadata"]["name"] for each in space.all(TRAINJOBS)] == ["sft"]


def test_a_refusal_is_recorded_with_every_finding(space, installation):
    assert not space.apply(jobs.wrong()).ok
    record = recorded(installation, space, "validate")
    assert (record["decision"], record["mode"], record["dryRun"]) == ("denied", "enforce", False)
    assert {each["field"] for each in record["findings"]} == set(jobs.MISTAKES)


def test_a_bad_jobset_is_refused_with_its_field_paths(space):
    outcome = space.apply(jobs.sampler(features="sleep,fly", size=4))
    assert outcome.refused_with(
        'The JobSet "sampler" is invalid', "(muster vllm/features)", "(muster vllm/parallel-size)"
    )
    place = "spec.replicatedJobs[node].template.spec.template.spec.containers[node].args"
    assert set(lines(outcome)) == {"metadata.annotations[muster.dev/vllm-features]", place}
    assert space.all(JOBSETS) == []


def test_trainers_own_env_is_refused_by_name(space):
    outcome = space.apply(jobs.sft(trainer={"env": [{"name": "PET_NNODES", "value": "3"}]}))
    assert outcome.refused_with("PET_NNODES")
    assert space.all(TRAINJOBS) == []


def test_a_runtime_that_does_not_exist_is_named(space):
    outcome = space.apply(documents.trainjob("lost", "no-such-runtime", trainer={}))
    # Trainer refuses it as well, and the API server shows whichever answer comes first.
    assert outcome.refused_with("no-such-runtime")
    assert space.all(TRAINJOBS) == []


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"activeDeadlineSeconds": 0}, ("spec.activeDeadlineSeconds", "greater than or equal to 1")),
        ({"initializer": {"model": {"storageUri": "no-uri"}}}, ("spec.initializer.model.storageUri", "valid URI")),
        ({"managedBy": "somebody"}, ("spec.managedBy", "Invalid value")),
    ],
    ids=["range", "pattern", "CEL"],
)
def test_the_apis_own_errors_are_still_shown(space, spec, words):
    assert space.apply(jobs.sft(**spec)).refused_with(*words)


def test_the_apis_own_rule_against_edits_is_still_shown(space):
    space.apply(jobs.sft()).expect()
    outcome = space.patch(TRAINJOBS, "sft", {"spec": {"trainer": {"numNodes": 3}}})
    assert outcome.refused_with("spec.trainer", "field is immutable")


def test_a_trainer_section_that_vanishes_is_refused(space):
    space.apply(jobs.sft()).expect()
    outcome = space.patch(TRAINJOBS, "sft", [{"op": "remove", "path": "/spec/trainer"}], type="json")
    assert outcome.refused_with("spec.trainer: Required value: cannot be removed after creation")
    found = space.trainjob("sft")
    assert found["spec"]["trainer"]["command"] == jobs.MENDED


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("command", "trl sft"),
        ("args", [1, 2]),
        ("numNodes", "two"),
        ("numProcPerNode", [4]),
        ("env", [{"name": 7}]),
        ("resourcesPerNode", []),
        ("resourcesPerNode", {"limits": {"nvidia.com/gpu": "four"}}),
        ("image", {}),
    ],
    ids=["command", "args", "numNodes", "numProcPerNode", "env", "resourcesPerNode", "quantity", "image"],
)
def test_a_member_of_the_wrong_type_is_named(space, installation, member, value):
    outcome = space.apply(jobs.sft(trainer={member: value}), options=("--validate=warn",))
    named = "quantities must match" if member == "resourcesPerNode" and value else f"spec.trainer.{member}"
    assert outcome.refused_with(named), outcome
    assert not any(word in outcome.err for word in FAILURES)
    assert {each["decision"] for each in installation.audit(space.name)} <= {"unchanged", "denied"}


@pytest.mark.parametrize("path", thorough.but("spec.trainer", of=["spec", "spec.runtimeRef", "spec.trainer"]))
def test_a_section_of_the_wrong_type_is_named(space, path):
    job = jobs.sft()
    *parents, last = path.split(".")
    place = job
    for each in parents:
        place = place[each]
    place[last] = "words"
    outcome = space.apply(job, options=("--validate=warn",))
    assert outcome.refused_with(path), outcome
    assert not any(word in outcome.err for word in FAILURES)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"replicatedJobs": "words"}, "replicatedJobs"),
        ({"replicatedJobs": [{"name": "node", "template": []}]}, "template"),
        ({"suspend": "maybe"}, "suspend"),
    ],
    ids=["list", "object", "boolean"],
)
def test_a_jobset_with_a_member_of_the_wrong_type_is_refused(space, spec, named):
    job = jobs.sampler()
    job["spec"] |= spec
    outcome = space.apply(job, options=("--validate=warn",))
    assert outcome.refused_with(named), outcome
    assert not any(word in outcome.err for word in FAILURES)
