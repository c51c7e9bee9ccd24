"""A training that only meets the others: reports how many there are, into a file of the folder REPORTS."""

import json
import os
import sys
import uuid
from pathlib import Path

import torch.distributed as dist


def report(size, rank):
    """Write what a rank has seen."""
    said = {"world": size, "rank": rank, "told": os.environ.get("MUSTER_EXPECTED_WORLD_SIZE")}
    Path(os.environ["REPORTS"], uuid.uuid4().hex).write_text(json.dumps(said))


def meet():
    """Meet by env://, as Hugging Face's Trainer does: without LOCAL_RANK a process is alone."""
    local, devices = int(os.environ.get("LOCAL_RANK", "-1")), int(os.environ.get("FAKE_GPUS", "0"))
    if devices and local >= devices:
        sys.exit("CUDA error: invalid device ordinal")
    if local == -1:
        report(1, 0)
        return
    dist.init_process_group("gloo")
    report(dist.get_world_size(), dist.get_rank())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    meet()
