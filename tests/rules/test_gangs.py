"""Gangs of all pods, of which some are made when others have ended; and the slots of a runtime of MPI."""

from __future__ import annotations

import pytest

from muster.strategies.checks.job_checks import check_job
from muster.strategies.launches import slots
from tests.frameworks.builders import gpus, job_of, replicated_job, runtime, trainjob


def gang(status="Complete", policy="coscheduling"):
    governing = runtime()
    spec = governing["spec"]
    node = spec["template"]["spec"]["replicatedJobs"][-1]
    node["dependsOn"] = [{"name": "prepare", "status": status}]
    spec["template"]["spec"]["replicatedJobs"].insert(0, replicated_job("prepare", {"name": "prepare", "image": "i"}))
    spec["podGroupPolicy"] = {policy: {}} if policy else None
    return [each.rule for each in check_job(job_of(trainjob({}), governing)) if each.rule == "core/gang"]


@pytest.mark.parametrize("policy", ["coscheduling", "volcano"])
def test_a_gang_of_pods_that_are_made_later_never_starts(policy):
    assert gang(policy=policy) == ["core/gang"]


def test_a_gang_without_an_order_and_an_order_without_a_gang_start():
    assert gang(policy=None) == []
    assert gang(status="Ready") == []  # of samplers, and judged there


def ranks(line, *, nodes=2, own=None, policy=None, count=4):
    governing = runtime("deepspeed", policy={"mpi": {"numProcPerNode": 4, **(policy or {})}}, resources=gpus(count))
    trainer = {"command": line.split(), "numNodes": nodes, **({"numProcPerNode": own} if own else {})}
    return [each.severity.value for each in slots.check(job_of(trainjob(trainer), governing))]


def test_more_ranks_than_slots_are_told():
    assert ranks("mpirun -np 9 python x.py") == ["warning"]
    assert ranks("mpirun -np 8 python x.py") == []
    assert ranks("mpirun -np 4 python x.py", own=1) == ["warning"]
    assert ranks("mpirun -np 8 python x.py", policy={"numProcPerNode": 1}) == []
    assert ranks("mpirun -np 8 python x.py", nodes=1, policy={"runLauncherAsNode": True}) == []


@pytest.mark.parametrize("words", ["--oversubscribe", "--hostfile /h", "-H a:16", "--map-by :OVERSUBSCRIBE"])
def test_other_slots_are_not_counted(words):
    assert ranks(f"mpirun -np 16 {words} python x.py") == []
