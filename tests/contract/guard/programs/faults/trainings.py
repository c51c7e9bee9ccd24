"""The small model of all these programs, its batches, of which each rank has others, and its steps."""

import contextlib

import torch
import torch.distributed as dist

STEPS = 5


def model():
    """The same weights on each rank."""
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))


def batch(step, rank=None):
    """The batch of a rank at a step, as a sampler for several ranks would give it."""
    rank = rank if rank is not None else dist.get_rank() if dist.is_initialized() else 0
    return torch.randn(16, 8, generator=torch.Generator().manual_seed(1000 * step + rank)) + rank


def train(forward, *models, around=contextlib.nullcontext, before=None, after=None, optimizer=None):
    """Train for a few steps.

    Args:
        forward: from a batch to what the loss is made of.
        models: their parameters are trained.
        around: a context for the backward pass.
        before: is called with the parameters before each step of the optimizer.
        after: the same after it.
        optimizer: SGD by default.
    """
    parameters = [each for model in models for each in model.parameters()]
    optimizer = optimizer or torch.optim.SGD(parameters, lr=0.05)
    for step in range(STEPS):
        with around():
            forward(batch(step)).square().mean().backward()
        if before:
            before(parameters)
        optimizer.step()
        if after:
            after(parameters)
        optimizer.zero_grad()


def end():
    """Wait for the others, if there are any, and leave the group."""
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()
    print("finished", flush=True)
