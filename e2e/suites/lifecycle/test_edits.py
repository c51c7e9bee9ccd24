"""Edits that the API forbids are refused with the API's own message: Muster neither hides nor replaces it."""

from __future__ import annotations

import pytest

from e2e.suites.lifecycle import cases, lives
from e2e.suites.lifecycle.lives import Life
from e2e.suites.support.spaces import JOBSETS, TRAINJOBS

NODE = "/spec/replicatedJobs/0/template/spec"
FORBIDDEN = (
    {"command": ["python", "other.py"]},
    {"args": ["--other"]},
    {"image": "other:1"},
    {"numNodes": 3},
    {"numProcPerNode": 7},
    {"env": [{"name": "NEW", "value": "1"}]},
)
FORBIDDEN_ON_JOBSETS = (
    {"op": "add", "path": f"{NODE}/template/spec/containers/0/command", "value": ["sleep", "1"]},
    {"op": "replace", "path": f"{NODE}/parallelism", "value": 5},
    {"op": "replace", "path": "/spec/replicatedJobs/0/replicas", "value": 2},
    {"op": "remove", "path": f"{NODE}/template/spec/containers/0/env/0"},
)


@pytest.fixture
def life(space, installation):
    case = cases.CASES["trl"]
    lives.submit(space, case.runtime, case.job(suspend=True))
    life = Life(space, "life", installation)
    life.wait("suspended")
    return life


def is_the_apis_own(outcome):
    return outcome.refused_with("field is immutable") and outcome.err.startswith(
        ('The TrainJob "life" is invalid', 'The JobSet "life" is invalid')
    )


def test_every_forbidden_edit_of_the_trainer_section_gets_the_apis_answer(space, life):
    for edit in FORBIDDEN:
        outcome = space.patch(TRAINJOBS, "life", {"spec": {"trainer": edit}})
        assert is_the_apis_own(outcome), outcome
    life.turn()


def test_a_forbidden_edit_in_the_file_gets_the_apis_answer_however_it_is_sent(space, life):
    job = cases.CASES["trl"].job(suspend=True)
    job["spec"]["trainer"] = {**job["spec"]["trainer"], "command": ["trl", "dpo"]}
    for server_side in (False, True):
        outcome = space.apply(job, server_side=server_side, options=("--force-conflicts",) * server_side)
        assert is_the_apis_own(outcome), outcome
    assert is_the_apis_own(lives.edit("the TrainJob", lambda: space.kubectl.replace(job, namespace=space.name)))
    life.resume()


def test_another_runtime_gets_the_apis_answer(space, life):
    other = {**cases.CASES["trl"].runtime, "metadata": {"name": "other"}}
    space.apply(other).expect()
    outcome = space.patch(TRAINJOBS, "life", {"spec": {"runtimeRef": {"name": "other"}}})
    assert is_the_apis_own(outcome), outcome
    life.resume()


def test_every_forbidden_edit_of_the_jobset_gets_jobsets_answer(space, life):
    for edit in FORBIDDEN_ON_JOBSETS:
        outcome = space.patch(JOBSETS, "life", [edit], type="json")
        assert is_the_apis_own(outcome), outcome
    life.turn()


def test_a_patch_of_a_running_job_by_a_queue_gets_trainers_answer(space, life):
    life.resume()
    pod = {"spec": {"nodeSelector": {"flavor": "other"}}}
    job = {"name": "node", "template": {"spec": {"template": pod}}}
    runtime = {"template": {"spec": {"replicatedJobs": [job]}}}
    patch = {"manager": "kueue.x-k8s.io/manager", "trainingRuntimeSpec": runtime}
    outcome = space.patch(TRAINJOBS, "life", {"spec": {"runtimePatches": [patch]}})
    assert outcome.refused_with("runtimePatches"), outcome
    life.suspend()


def test_taking_the_trainer_section_away_is_what_the_api_forgets_to_refuse(space, life):
    """The one edit that Muster answers: the API lets it pass, and the job could never be resumed."""
    outcome = space.patch(TRAINJOBS, "life", {"spec": {"trainer": None}})
    assert outcome.refused_with("spec.trainer", "cannot be removed after creation"), outcome
    life.turn()


def test_nobody_takes_musters_memory_away(space, life):
    for kind in (TRAINJOBS, JOBSETS):
        space.patch(kind, "life", {"metadata": {"annotations": {"muster.dev/applied": None}}}).expect()
        space.patch(kind, "life", {"metadata": {"annotations": {"muster.dev/applied": "{}"}}}).expect()
        space.patch(kind, "life", {"metadata": {"annotations": None}}).expect()
    life.turn()
    life.delete()
