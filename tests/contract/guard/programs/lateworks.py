"""Ends while a thread of gloo waits for the GIL, to drop a work that is done: nothing here lets it have it."""

import sys
import time

import torch
import torch.distributed as dist

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", world_size=1, rank=0)
sys.setswitchinterval(1000)
dist.all_gather([torch.empty(1)], torch.ones(1), async_op=True)
until = time.monotonic() + 0.5
while time.monotonic() < until:
    pass
