"""A small data parallel training as people write one by hand: `train.py together|alone STEPS [stays]`.

`together`: the ranks, one of each node, meet by Trainer's variables. `alone`: each node trains by itself, as programs
do that never ask how many they are. With `stays` it trains on until rank 0 sees the file /tmp/end.
"""

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

way, steps, stays = sys.argv[1], int(sys.argv[2]), "stays" in sys.argv[3:]
torch.set_num_threads(1)


def told(code):
    """What Python code prints in a process of its own."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout.strip()


print("python", sys.prefix, "customized by", getattr(sys, "customized_by", "nobody"))
print("child customized by", told("import sys; print(getattr(sys, 'customized_by', 'nobody'))"))
print("team", told("import team; print(team.NAME)") or "not found")
if way == "together":
    node, nodes = os.environ["PET_NODE_RANK"], os.environ["PET_NNODES"]
    address, port = os.environ["PET_MASTER_ADDR"], os.environ["PET_MASTER_PORT"]
    os.environ.update(RANK=node, WORLD_SIZE=nodes, LOCAL_RANK="0", MASTER_ADDR=address, MASTER_PORT=port)
    dist.init_process_group("gloo")

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
used = DistributedDataParallel(model) if dist.is_initialized() else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)


def is_over(step):
    """Whether this step is the last one, which rank 0 decides for all."""
    over = torch.tensor(int(step >= steps and (not stays or Path("/tmp/end").exists())))
    if dist.is_initialized():
        dist.broadcast(over, 0)
    return bool(over)


step = 0
while True:
    step += 1
    rank = dist.get_rank() if dist.is_initialized() else 0
    batch = torch.randn(16, 8, generator=torch.Generator().manual_seed(1000 * step + rank))
    used(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == steps:
        weights = b"".join(each.detach().numpy().tobytes() for each in model.parameters())
        print(f"weights after {steps} steps", hashlib.sha256(weights).hexdigest()[:16], flush=True)
    if is_over(step):
        break
    if step > steps:
        time.sleep(0.1)
if dist.is_initialized():
    dist.destroy_process_group()
print("finished", flush=True)
