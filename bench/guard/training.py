"""A small training that makes as many steps as its argument says for each line that it reads, and prints us a step."""

import sys
import time

import torch

torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(64, 512)
count = int(sys.argv[1])
for _ in range(10):
    model(data).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
for _ in sys.stdin:
    begun = time.thread_time()
    for _ in range(count):
        model(data).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    print((time.thread_time() - begun) / count * 1e6, flush=True)
