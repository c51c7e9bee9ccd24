"""A small data-parallel training; `--alone` makes no process group, `--crash` and `--exit N` end it otherwise."""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--alone", action="store_true")
parser.add_argument("--compiled", action="store_true")
parser.add_argument("--crash", action="store_true")
parser.add_argument("--exit", type=int, default=0)
parser.add_argument("--steps", type=int, default=3)
options = parser.parse_args()

torch.set_num_threads(1)
model = torch.nn.Linear(64, 8)
if not options.alone:
    dist.init_process_group("gloo")
    print("group made", flush=True)
    model = DistributedDataParallel(model)
optimizer = torch.optim.AdamW(model.parameters())
step = torch.compile(optimizer.step, backend="eager") if options.compiled else optimizer.step
for _ in range(options.steps):
    model(torch.randn(4, 64)).square().mean().backward()
    step()
    optimizer.zero_grad()
if options.crash:
    raise RuntimeError("the user's own mistake")
if not options.alone:
    # As TRL and transformers gather their metrics: the last work of the group is an allgather, still to be dropped.
    gathered = [torch.empty(1) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, torch.ones(1))
    objects: list[object] = [None] * dist.get_world_size()
    dist.all_gather_object(objects, {"rank": os.environ["RANK"]})
print("finished", flush=True)
sys.exit(options.exit)
