"""What Trainer's plugins read and add, by the labels and the names of replicated jobs."""

from __future__ import annotations

import pytest

from muster.strategies.documents import model
from muster.strategies.documents.decoding import read
from muster.strategies.documents.runtimes import Runtime
from muster.strategies.trainer import ml_policies
from tests.support.jobs import ANCESTOR

MPI = {"numNodes": 1, "mpi": {"numProcPerNode": 4}}
AS_NODE = {"numNodes": 1, "mpi": {"numProcPerNode": 4, "runLauncherAsNode": True}}
TORCH = {"numNodes": 3, "torch": {}}


def replicated(name, *, step="", container="node", parallelism=None, replicas=None, **members):
    inner = {"template": {"spec": {"containers": [{"name": container, **members}]}}}
    if parallelism is not None:
        inner["parallelism"] = parallelism
    template = {"spec": inner, **({"metadata": {"labels": {ANCESTOR: step}}} if step else {})}
    return {"name": name, "template": template, **({} if replicas is None else {"replicas": replicas})}


def runtime(policy, *jobs):
    return Runtime({"spec": {"mlPolicy": policy, "template": {"spec": {"replicatedJobs": list(jobs)}}}}, "live")


@pytest.mark.parametrize(
    ("policy", "job", "trainer", "count"),
    [
        (TORCH, replicated("node", step="trainer"), {}, 3),
        (TORCH, replicated("node", step="trainer", parallelism=7, replicas=2), {"numNodes": 5}, 5),
        (TORCH, replicated("node", parallelism=7, replicas=2), {"numNodes": 5}, 14),
        (MPI, replicated("node", parallelism=2), {"numNodes": 5}, 5),
        (MPI, replicated("node", parallelism=2), {}, 2),
        (MPI, replicated("launcher", step="trainer"), {"numNodes": 5}, 1),
        (AS_NODE, replicated("node"), {"numNodes": 5}, 4),
        (AS_NODE, replicated("node"), {"numNodes": 1}, 1),
        ({}, replicated("node", step="trainer", parallelism=2), {}, 2),
        ({}, replicated("node", step="trainer", parallelism=2), {"numNodes": 5}, 5),
        (TORCH, replicated("dataset-initializer", step="dataset-initializer", replicas=3), {"numNodes": 5}, 1),
    ],
)
def test_a_replicated_job_has_as_many_pods_as_trainer_gives_it(policy, job, trainer, count):
    assert (
        ml_policies.count(read(policy, model.MLPolicy), read(job, model.ReplicatedJob), read(trainer, model.Trainer))
        == count
    )


@pytest.mark.parametrize(
    ("policy", "jobs", "trainer", "ignored"),
    [
        (TORCH, [replicated("node", step="trainer")], {"numNodes": 2, "image": "i", "env": [{"name": "A"}]}, []),
        (TORCH, [replicated("node")], {"numNodes": 2, "args": ["a"]}, ["args", "numNodes"]),
        (TORCH, [replicated("node")], {"numNodes": 1}, ["numNodes"]),
        (TORCH, [replicated("node", step="trainer", container="main")], {"numNodes": 2, "image": "i"}, ["image"]),
        (TORCH, [replicated("a"), replicated("b")], {"image": "i"}, ["image"]),
        (TORCH, [replicated("node", image="i")], {"image": "i"}, []),
        ({}, [replicated("node", parallelism=2)], {"numNodes": 2}, []),
        (MPI, [replicated("launcher"), replicated("node")], {"numNodes": 2, "numProcPerNode": 4}, []),
        (MPI, [replicated("launcher")], {"numNodes": 2}, ["numNodes"]),
        (MPI, [replicated("launcher"), replicated("node")], {"env": [{"name": "A"}]}, ["env"]),
        (AS_NODE, [replicated("launcher"), replicated("node")], {"env": [{"name": "A"}]}, []),
        (AS_NODE, [replicated("launcher"), replicated("node")], {"command": ["a"]}, ["command"]),
    ],
)
def test_only_what_nothing_reads_and_would_change_something_is_ignored(policy, jobs, trainer, ignored):
    assert ml_policies.ignored(runtime(policy, *jobs), read(trainer, model.Trainer)) == ignored


@pytest.mark.parametrize(
    ("policy", "job", "volumes"),
    [
        (MPI, replicated("launcher"), {"mpi-ssh-auth", "mpi-hostfile"}),
        (MPI, replicated("node"), {"mpi-ssh-auth"}),
        (MPI, replicated("other"), set()),
        (TORCH, replicated("node", step="trainer"), {"kubeflow-trainer-token"}),
        (TORCH, replicated("launcher"), set()),
        ({"flux": {}}, replicated("worker"), set()),
    ],
)
def test_volumes_are_those_of_the_plugin_and_of_the_name(policy, job, volumes):
    assert ml_policies.volumes(read(policy, model.MLPolicy), read(job, model.ReplicatedJob), "mine") == volumes


def test_a_volume_of_flux_has_the_name_of_the_trainjob():
    assert "mine-flux-entrypoint" in ml_policies.volumes(
        model.MLPolicy(flux={}), read(replicated("node"), model.ReplicatedJob), "mine"
    )
