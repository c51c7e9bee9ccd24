"""Trainings that share gradients in some way, or do not; each case runs in forks of this process, one for each rank.

It prints one line of JSON: by case, for each rank, the exit code, a checksum of the weights, and what it said.
Arguments are names of cases; without any, all of them run.
"""

import copy
import hashlib
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.optim  # what takes long is imported once, before the forks
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

RANKS = {"hybrid_fsdp2": 4, "tensor_and_data_parallel": 4}
STEPS = 4
SLOWLY = "--slowly" in sys.argv


def model(seed=0):
    torch.manual_seed(seed)
    made = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 8))
    torch.manual_seed(100 + dist.get_rank())  # data differ by rank
    return made


def train(forward, parameters, *, each=None, dtype=torch.float32, optimizer=None, steps=STEPS):
    """Step some times; `each` is called with the step before the optimizer's."""
    found = optimizer or torch.optim.AdamW(parameters, lr=0.01)
    for step in range(steps):
        forward(torch.randn(4, 32, dtype=dtype)).square().mean().backward()
        if each:
            each(step)
        if SLOWLY:
            time.sleep(20)
        found.step()
        found.zero_grad()


def ddp():
    made = model(dist.get_rank())
    train(DistributedDataParallel(made), made.parameters())
    return made


def ddp_in_bf16():
    made = model().bfloat16()
    train(DistributedDataParallel(made), made.parameters(), dtype=torch.bfloat16)
    return made


def ddp_with_accumulation():
    made = model()
    wrapped = DistributedDataParallel(made)

    def forward(data):
        with wrapped.no_sync():
            wrapped(data.flip(0)).square().mean().backward()
        return wrapped(data)

    train(forward, made.parameters())
    return made


def ddp_that_warms_up():
    made = model()
    optimizer = torch.optim.AdamW(made.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    train(DistributedDataParallel(made), None, optimizer=optimizer, each=lambda step: step and schedule.step())
    return made


class _Adapted(torch.nn.Module):
    """A linear layer with an adapter whose second half is zero, as LoRA begins."""

    def __init__(self):
        super().__init__()
        self.base = torch.nn.Linear(32, 16).requires_grad_(False)
        self.a, self.b = torch.nn.Linear(32, 4, bias=False), torch.nn.Linear(4, 16, bias=False)
        torch.nn.init.zeros_(self.b.weight)

    def forward(self, data):
        return self.base(data) + self.b(self.a(data))


def _adapted():
    torch.manual_seed(0)
    made = _Adapted()
    torch.manual_seed(100 + dist.get_rank())
    return made, [each for each in made.parameters() if each.requires_grad]


def lora():
    made, parameters = _adapted()
    train(DistributedDataParallel(made), parameters)
    return made


def lora_apart():
    made, parameters = _adapted()
    train(made, parameters)
    return made


def _two(wrap):
    """Train two models in turns; only the first is always data-parallel."""
    actor, critic = model(), model(1)
    first, second = DistributedDataParallel(actor), wrap(critic)
    optimizer = torch.optim.AdamW(critic.parameters(), lr=0.01)

    def turn(_):
        second(torch.randn(4, 32)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    train(first, actor.parameters(), each=turn)
    return critic


def two_optimizers():
    return _two(DistributedDataParallel)


def two_optimizers_of_which_one_is_bare():
    return _two(lambda critic: critic)


def gradients_by_hand():
    made = model()

    def share(_):
        for each in made.parameters():
            dist.all_reduce(each.grad)

    train(made, made.parameters(), each=share)
    return made


def zero_redundancy():
    made = model()
    optimizer = dist.optim.ZeroRedundancyOptimizer(made.parameters(), torch.optim.AdamW, lr=0.01)
    train(DistributedDataParallel(made), None, optimizer=optimizer)
    return made


def experts():
    made = model()
    expert = copy.deepcopy(made)
    for each in expert.parameters():
        each.allreduce = False
    wrapped = DistributedDataParallel(made)
    train(lambda data: wrapped(data) + expert(data), [*made.parameters(), *expert.parameters()])
    return made


def fsdp1():
    made = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
    train(made, made.parameters())
    return made


def fsdp1_with_original_parameters():
    made = FullyShardedDataParallel(model(), device_id=torch.device("cpu"), use_orig_params=True)
    train(made, made.parameters())
    return made


def fsdp2():
    made = fully_shard(model(), mesh=init_device_mesh("cpu", (2,)))
    train(made, made.parameters())
    return made


def hybrid_fsdp2():
    made = fully_shard(model(), mesh=init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")))
    train(made, made.parameters())
    return made


def tensor_and_data_parallel():
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "tensor"))
    torch.manual_seed(0)
    made = torch.nn.Sequential(torch.nn.Linear(32, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
    parallelize_module(made, mesh["tensor"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    torch.manual_seed(100 + mesh.get_coordinate()[0])

    def share(_):
        for each in made.parameters():
            dist.all_reduce(each.grad.to_local(), group=mesh["data"].get_group())

    train(made, made.parameters(), each=share)
    return made


def stages():
    """A pipeline by hand: both stages have one form, and no collective is called."""
    made = model(dist.get_rank())

    def forward(data):
        if dist.get_rank() == 0:
            found = made(data)
            dist.send(found.detach(), 1)
            return found
        dist.recv(data[:, :8].contiguous(), 0)
        return made(data)

    train(forward, made.parameters())
    return made


def averaged_weights():
    """Local SGD: the ranks take the mean of their weights every third step."""
    made = model()
    averager = PeriodicModelAverager(period=3)
    train(made, made.parameters(), each=lambda _: averager.average_parameters(made.parameters()))
    return made


def equal_data():
    """Nothing is shared, and nothing differs: ranks that compute the same."""
    made = model()
    torch.manual_seed(7)
    train(made, made.parameters())
    return made


def one_rank_without_an_optimizer():
    made = model()
    if dist.get_rank() == 0:
        train(made, made.parameters())
    return made


def optimizer_that_shares():
    """As modded-nanogpt does: gradients are shared within the step."""

    class Sharing(torch.optim.SGD):
        def step(self, closure=None):
            for each in self.param_groups[0]["params"]:
                dist.all_reduce(each.grad)
            return super().step(closure)

    made = model()
    train(made, None, optimizer=Sharing(made.parameters(), lr=0.01))
    return made


def no_sync_for_ever():
    made = model()
    wrapped = DistributedDataParallel(made)
    with wrapped.no_sync():
        train(wrapped, made.parameters())
    return made


def around_a_copy():
    made = model()
    DistributedDataParallel(copy.deepcopy(made))
    train(made, made.parameters())
    return made


def plain():
    made = model()
    train(made, made.parameters())
    return made


def plain_with_other_weights():
    made = model(dist.get_rank())
    train(made, made.parameters())
    return made


def plain_with_a_shared_loss():
    made = model()
    train(made, made.parameters(), each=lambda _: dist.all_reduce(torch.ones(1)))
    return made


def a_head_outside():
    made = model()
    torch.manual_seed(5)
    head = torch.nn.Linear(8, 8)
    torch.manual_seed(100 + dist.get_rank())
    wrapped = DistributedDataParallel(made)
    train(lambda data: head(wrapped(data)), [*made.parameters(), *head.parameters()])
    return made


def apart_that_warms_up():
    made = model()
    optimizer = torch.optim.AdamW(made.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
    train(made, None, optimizer=optimizer, each=lambda step: step and schedule.step())
    return made


CASES = {
    name: value
    for name, value in list(globals().items())
    if callable(value)
    and getattr(value, "__module__", "") == "__main__"
    and not name.startswith("_")
    and name not in ("model", "train")
}


def run(name, rank, folder):
    """Run one rank of a case in this process, which is a fork, and end it as a program ends."""
    os.environ["MUSTER_GUARD_TOP"] = f"0-{name}"
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(RANKS.get(name, 2)))
    os.dup2(os.open(folder / f"{name}-{rank}", os.O_CREAT | os.O_WRONLY), 2)
    dist.init_process_group("gloo", f"file://{folder}/{name}", rank=rank, world_size=RANKS.get(name, 2))
    made = CASES[name]()
    weights = [getattr(each, "_local_tensor", each).detach().float().numpy().tobytes() for each in made.parameters()]
    (folder / f"{name}-{rank}.sum").write_text(hashlib.sha256(b"".join(weights)).hexdigest())
    dist.barrier()


def main():
    torch.set_num_threads(1)
    torch.optim.AdamW([torch.nn.Parameter(torch.ones(2))])  # imports the compiler
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    found = {}
    for name in [each for each in sys.argv[1:] if each in CASES] or CASES:
        children = []
        for rank in range(RANKS.get(name, 2)):
            child = os.fork()
            if child == 0:
                run(name, rank, folder)
                return
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        found[name] = [
            {
                "code": code,
                "sum": (folder / f"{name}-{rank}.sum").read_text()
                if (folder / f"{name}-{rank}.sum").exists()
                else None,
                "said": (folder / f"{name}-{rank}").read_text(),
            }
            for rank, code in enumerate(codes)
        ]
    print(json.dumps(found), flush=True)


main()
