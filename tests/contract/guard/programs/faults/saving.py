"""Trainings that save, in one WAY of many, into a folder that all nodes see (SHARED) or one of each node."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import save_file
from torch.nn.parallel import DistributedDataParallel as Ddp
from trainings import end, model, train

SHARED = Path(os.environ["SHARED"])


def save(path):
    """Save as programs do: the file is there when it returns."""
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(own.state_dict(), path)


def save_into(path):
    with path.open("wb") as file:
        torch.save(own.state_dict(), file)


dist.init_process_group("gloo")
own, rank, local = model(), dist.get_rank(), int(os.environ["LOCAL_RANK"])
wrapped = Ddp(own)
train(wrapped, wrapped)
for name, is_saved, write in (
    ("first-of-each-node", local == 0, lambda: save(SHARED / "model.pt")),
    ("first-of-all", rank == 0, lambda: save(SHARED / "model.pt")),
    ("in-own-folders", local == 0, lambda: save(Path("output/model.pt"))),
    ("all-safetensors", True, lambda: save_file(own.state_dict(), SHARED / "model.safetensors")),
    ("first-safetensors", rank == 0, lambda: save_file(own.state_dict(), SHARED / "model.safetensors")),
    ("named-by-local-rank", True, lambda: save(SHARED / f"part-{local}.pt")),
    ("named-by-rank", True, lambda: save(SHARED / f"part-{rank}.pt")),
    ("opened-by-each-node", local == 0, lambda: save_into(SHARED / "model.pt")),
    ("opened-by-first", rank == 0, lambda: save_into(SHARED / "model.pt")),
):
    if name == sys.argv[1] and is_saved:
        write()
end()
