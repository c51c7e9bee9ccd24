"""Makes and drops a gloo group with a DDP model, again and again, and prints how often; alone, or by torchrun.

As in a training that has ended, the model is the last to own the group, whose last work has just been done. The main
thread does not give up the GIL by itself here, so what is a matter of chance in a training happens within seconds.
"""

import argparse
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def train_and_drop():
    group = dist.new_group()
    model = DistributedDataParallel(torch.nn.Linear(4, 4), process_group=group)
    dist.all_gather([torch.empty(1) for _ in range(group.size())], torch.ones(1), group=group)
    dist.destroy_process_group(group)
    del group
    del model


parser = argparse.ArgumentParser()
parser.add_argument("--rounds", type=int, required=True)
options = parser.parse_args()

torch.set_num_threads(1)
if "RANK" in os.environ:
    dist.init_process_group("gloo")
else:
    dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", world_size=1, rank=0)
sys.setswitchinterval(1000)
print("begun", flush=True)
for number in range(1, options.rounds + 1):
    train_and_drop()
    print(f"round {number}", flush=True)
guard = sys.modules.get("muster_guard.groups")
print(f"kept {len(guard._kept) if guard else 'nothing'}", flush=True)
