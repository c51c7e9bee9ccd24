"""Ranks that a job reads from a field: each node needs one of its own, and an index may count something else."""

from __future__ import annotations

import pytest

from tests.jobsets import sets
from tests.jobsets.sets import container, jobset, part

RULE = "core/fixed-rank"
COMPLETION = "batch.kubernetes.io/job-completion-index"
JOB = "jobset.sigs.k8s.io/job-index"
GLOBAL = "jobset.sigs.k8s.io/job-global-index"
GROUP = "jobset.sigs.k8s.io/job-group-index"
RESTARTS = "jobset.sigs.k8s.io/restart-attempt"
MEETING = ("--nnodes=4", "--master_addr=set-job-0-0.set", "--master_port=29500")


def reading(key, kind="annotations", name="R"):
    return [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": f"metadata.{kind}['{key}']"}}}]


def said(document):
    return [each.severity.value for each in sets.decided(document)[1] if each.rule == RULE]


def job(rank, env=(), replicas=1, pods=1, command=None):
    words = command or ("torchrun", *MEETING, f"--node_rank={rank}", "train.py")
    own = {"env": list(env)} if env else {}
    return jobset(part("job", container(*words, gpus=8, **own), pods=pods, replicas=replicas))


SAME = {
    "the index in each of four Jobs": job("$(JOB_COMPLETION_INDEX)", replicas=4),
    "the same by its annotation": job("$(R)", reading(COMPLETION), replicas=4),
    "the same by its label": job("$(R)", reading(COMPLETION, "labels"), replicas=4),
    "the same in a shell": job("", replicas=4, command=(
        *("sh", "-c", f"torchrun {' '.join(MEETING)} --node_rank=$JOB_COMPLETION_INDEX x.py"),
    )),
    "the index of the Job of all pods": job("$(R)", reading(JOB), pods=4),
    "the index among all Jobs": job("$(R)", reading(GLOBAL, "labels"), pods=4),
    "the index in the group": job("$(R)", reading(GROUP), pods=4),
    "the number of restarts": job("$(R)", reading(RESTARTS, "labels"), pods=4),
    "the number of Jobs": job("$(R)", reading("jobset.sigs.k8s.io/global-replicas"), pods=4),
    "accelerate": job("", replicas=4, command=(
        *("accelerate", "launch", "--num_machines=4", "--num_processes=32", "--machine_rank=$(JOB_COMPLETION_INDEX)"),
        *("--main_process_ip=set-job-0-0.set", "--main_process_port=29500", "train.py"),
    )),
}  # fmt: skip
PROGRAMS = {
    "a plain program": job("", reading(COMPLETION, name="RANK"), replicas=4, command=("python", "train.py")),
    "a plain program in a shell": job(
        "", replicas=4, command=("sh", "-c", "NODE_RANK=$JOB_COMPLETION_INDEX python train.py")
    ),
}  # fmt: skip
APART = {
    "the index in one Job": job("$(JOB_COMPLETION_INDEX)", pods=4),
    "the same by its annotation": job("$(R)", reading(COMPLETION), pods=4),
    "the index of the Job": job("$(R)", reading(JOB), replicas=4),
    "the index among all Jobs": job("$(R)", reading(GLOBAL), replicas=4),
    "the index in the group": job("$(R)", reading(GROUP), replicas=4),
    "an annotation of another hand": job("$(R)", reading("example.org/rank"), pods=4),
    "arithmetic": job("", replicas=2, pods=2, command=(
        *("sh", "-c", f"torchrun {' '.join(MEETING)} --node_rank=$((J * 2 + JOB_COMPLETION_INDEX)) x.py"),
    )),
    "c10d, which numbers the nodes itself": job("", replicas=4, command=(
        *("torchrun", "--nnodes=4", "--rdzv_backend=c10d", "--rdzv_endpoint=set-job-0-0.set:29500"),
        *("--node_rank=$(JOB_COMPLETION_INDEX)", "train.py"),
    )),
    "two Jobs of two, for which Muster chooses c10d": job("$(JOB_COMPLETION_INDEX)", replicas=2, pods=2),
    "one pod": job("$(R)", reading(RESTARTS), command=("torchrun", "--nnodes=1", "--node_rank=$(R)", "train.py")),
}  # fmt: skip


@pytest.mark.parametrize("document", SAME.values(), ids=SAME)
def test_a_rank_that_several_nodes_share_is_refused(document):
    assert said(document) == ["error"]


@pytest.mark.parametrize("document", PROGRAMS.values(), ids=PROGRAMS)
def test_a_program_that_may_count_otherwise_is_only_warned_of(document):
    assert said(document) == ["warning"]


@pytest.mark.parametrize("document", APART.values(), ids=APART)
def test_a_rank_that_each_node_has_of_its_own_is_right(document):
    assert said(document) == []


def test_a_leader_may_take_its_index_where_the_workers_add_to_theirs():
    launch = f"torchrun {' '.join(MEETING)} --node_rank=%s train.py".replace("job-0", "leader-0")
    leader = part("leader", container("sh", "-c", launch % "$JOB_COMPLETION_INDEX", gpus=8))
    workers = part("workers", container("sh", "-c", launch % "$((JOB_COMPLETION_INDEX + 1))", gpus=8), pods=3)
    assert said(jobset(leader, workers)) == []


def test_a_leader_and_workers_that_all_take_their_index_share_it():
    launch = f"torchrun {' '.join(MEETING)} --node_rank=$JOB_COMPLETION_INDEX train.py".replace("job-0", "leader-0")
    leader = part("leader", container("sh", "-c", launch, gpus=8))
    workers = part("workers", container("sh", "-c", launch, gpus=8), pods=3)
    assert "error" in said(jobset(leader, workers))
