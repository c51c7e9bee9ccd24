"""A training that can be interrupted: the first rank writes a checkpoint at each step, and all ranks resume from it."""

import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

folder, steps = Path(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
model = torch.nn.Linear(8, 1)
checkpoint = folder / "checkpoint.pt"
done = 0
if checkpoint.exists():
    state = torch.load(checkpoint)
    model.load_state_dict(state["model"])
    done = state["step"]
print(f"rank {rank} of {dist.get_world_size()} begins after step {done}", flush=True)
parallel = DistributedDataParallel(model)
optimizer = torch.optim.SGD(parallel.parameters(), lr=0.01)
for step in range(done + 1, steps + 1):
    parallel(torch.ones(4, 8)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
        written = folder / "written.pt"
        torch.save({"model": model.state_dict(), "step": step}, written)
        written.replace(checkpoint)
        print(f"step {step}", flush=True)
    time.sleep(0.5)
