"""What tests of the rendezvous share: the env that is expected, and the two ways in which a JobSet comes to be."""

from __future__ import annotations

from tests.frameworks.builders import INDEX, enforce, gpus, jobset, replicated_job, run, runtime, trainjob

TORCHRUN = {"command": ["torchrun", "train.py"]}
KIND = "muster.dev/rendezvous"
MASTERS = {"MASTER_ADDR": "job-node-0-0.job", "MASTER_PORT": "29500"}
C10D = {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": "job-node-0-0.job:29500", "PET_RDZV_ID": "job"}
RANKS = {"NODE_RANK": INDEX, "RANK": INDEX, "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}


def world(size):
    return {"MUSTER_EXPECTED_WORLD_SIZE": str(size)}


def made(trainer, governing=None, *, annotations=None, **more):
    """What is added to the JobSet that Trainer makes of this job."""
    governing = governing or runtime(resources=gpus(4))
    return run("torch", trainjob(trainer, annotations=annotations), governing, **more)[1]


def alone(container, *, annotations=None, network=None, **job):
    """What a JobSet without Trainer gets."""
    extra = {"network": network} if network else {}
    training = replicated_job("node", {"name": "node", **container}, **job)
    return enforce("torch", jobset(training, name="job", annotations=annotations, **extra))
