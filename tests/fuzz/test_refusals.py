"""What Muster refuses once it has changed a job, it refuses of the job as it came."""

from __future__ import annotations

import json

import pytest

from tests.frameworks import sampled_jobs
from tests.fuzz import cases, invariants, services, skeletons, trials
from tests.support import admissions, jobs

_JUDGED = (
    invariants.mutation_never_makes_validation_refuse,
    invariants.a_second_pass_changes_nothing,
    invariants.every_patch_applies,
)
_SHARES = 8
_NEEDS = ("--model_name_or_path=m", "--dataset_name=d")


def faults(*stories):
    """What is wrong with a job in mode `enforce`, given as (document, documents of the cluster)."""
    with services.Service(patience=600.0, forks=False) as service:
        for document, cluster in stories:
            policy = {"mode": "enforce", "profiles": True, "roles": True}
            case = cases.Case(document["kind"], admissions.make_review(document), list(cluster), policy)
            story = trials.run(service, case)
            for fault in invariants.faults(story, _JUDGED):
                yield document["metadata"].get("name"), json.dumps(document)[:600], *fault


def corpus(share):
    """Jobs of a part of the worlds, and the JobSets that follow from their TrainJobs."""
    for name in sorted(set(skeletons.worlds()))[share::_SHARES]:
        world = skeletons.of(name)
        for subject in world["subjects"]:
            yield subject, world["cluster"]
            if subject["kind"] == "TrainJob" and (after := skeletons.follow(cases.copied(subject), world["cluster"])):
                yield after


@pytest.mark.parametrize("share", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(1, _SHARES))])
def test_no_job_of_the_corpus_is_refused_only_after_it_was_changed(share):
    assert not list(faults(*corpus(share)))


@pytest.mark.parametrize(
    "options",
    [
        ["--hub-token", "x"],
        ["--nonsense"],
        ["--use_env"],
        ["--nproc_per_node=9"],
        ["--nnodes=7"],
        ["--nnodes=1", "--nnodes=2"],
        ["--standalone"],
        ["--nproc-per-node=$COUNT"],
        ["--master_port=x"],
        ["--node-rank=$(SLURM_NODEID)"],
        ["--rdzv-backend=c10d", "--rdzv-endpoint=x:y"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("trl", [["trl", "sft"], ["-m", "trl.cli", "sft"], ["--no-python", "trl", "sft"]], ids=" ".join)
def test_a_launcher_whose_options_stop_it_is_refused_before_it_is_replaced(options, trl):
    command = ["torchrun", *options, *trl]
    trainjob = jobs.make_trainjob(command=command, args=list(_NEEDS), numNodes=2)
    jobset = jobs.make_jobset(framework="trl", container={"command": command, "args": list(_NEEDS)}, nodes=2)
    assert not list(faults((trainjob, list(jobs.shipped_runtimes().values())), (jobset, [])))


def beside(*trainings, sampler=()):
    """A JobSet of several trainings that ask one sampler; each is given as (further words, env)."""
    made = sampled_jobs.by_hand(sampled_jobs.sampler(args=list(sampler)))
    made["metadata"]["name"] = "rl"
    server, node = made["spec"]["replicatedJobs"]
    made["spec"]["replicatedJobs"] = [server]
    for number, (words, env) in enumerate(trainings):
        each = cases.copied(node)
        each["name"] = f"node-{number}"
        made["spec"]["replicatedJobs"].append(each)
        trainer = jobs.container_of(made, -1)
        trainer["args"] = [*trainer["args"], *words]
        trainer["env"] = [{"name": name, "value": value} for name, value in env]
    return made


_FOLDER = [("MUSTER_WEIGHTS_FOLDER", "/shared")]
_HIDDEN = [("MUSTER_WEIGHTS_FOLDER", "$(WHERE)")]
_LORA = ["--use_peft", "--lora_r=8"]
_SIDES = {
    "a folder": ([], _FOLDER),
    "another folder": ([], [("MUSTER_WEIGHTS_FOLDER", "/elsewhere")]),
    "a hidden folder": ([], _HIDDEN),
    "nothing": ([], []),
    "a revision": (["--model_revision=v2"], []),
    "another model": (["--model_name_or_path=org/other"], []),
    "bf16": (["--bf16"], []),
    "no server": (["--vllm_mode=colocate"], _FOLDER),
    "adapters": (["--max_staleness=2", *_LORA], []),
    "more adapters": (["--max_staleness=9", "--use_peft", "--lora_r=200"], []),
}


@pytest.mark.parametrize("first", _SIDES)
@pytest.mark.parametrize("command", [None, ["torchrun", "rl.py"]], ids=["trl", "script"])
def test_trainings_that_want_different_things_of_one_sampler_are_refused_before_they_are_changed(first, command):
    stories = []
    for second, side in _SIDES.items():
        made = beside(_SIDES[first], side)
        for replicated in made["spec"]["replicatedJobs"][1:] if command else ():
            replicated["template"]["spec"]["template"]["spec"]["containers"][0]["command"] = command
        made["metadata"]["name"] = f"{first}, {second}"[:60]
        stories.append((made, []))
    assert not list(faults(*stories))
