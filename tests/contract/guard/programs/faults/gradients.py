"""A training of several ranks that met, in one WAY of many: some share gradients, and some only look as if they did."""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel as Ddp
from trainings import STEPS, batch, end, model, train

WAYS = {}


def way(function):
    """Name a way by its function."""
    WAYS[function.__name__.replace("_", "-")] = function
    return function


@way
def ddp():
    wrapped = Ddp(model())
    train(wrapped, wrapped)


@way
def no_sync():
    wrapped = Ddp(model())
    train(wrapped, wrapped, around=wrapped.no_sync)


@way
def accumulated():
    wrapped = Ddp(model())

    def forward(data):
        with wrapped.no_sync():
            wrapped(data[:8]).square().mean().backward()
        return wrapped(data[8:])

    train(forward, wrapped)


@way
def copied():
    own = model()
    Ddp(copy.deepcopy(own))
    train(own, own)


@way
def unwrapped():
    wrapped = Ddp(model())
    train(wrapped.module, wrapped)


@way
def unwrapped_after_a_step():
    wrapped, calls = Ddp(model()), []

    def forward(data):
        calls.append(data)
        return (wrapped if len(calls) == 1 else wrapped.module)(data)

    train(forward, wrapped)


@way
def half():
    whole = model()
    body, head = Ddp(whole[:2]), whole[2]
    train(lambda data: head(body(data)), body, head)


@way
def halves():
    whole = model()
    body, head = Ddp(whole[:2]), Ddp(whole[2])
    train(lambda data: head(body(data)), body, head)


@way
def detached():
    body, head = Ddp(model()), torch.nn.Linear(4, 4)
    train(lambda data: head(body(data).detach()), head)


@way
def frozen():
    body, head = model().requires_grad_(False), Ddp(torch.nn.Linear(4, 4))
    train(lambda data: head(body(data).detach()), head)


def adapted(whole):
    """Add a trained adapter to a model that is frozen else."""
    whole.requires_grad_(False)
    whole.append(torch.nn.Linear(4, 4))
    torch.nn.init.eye_(whole[-1].weight)


@way
def adapter_too_late():
    own = model()
    wrapped = Ddp(own)
    adapted(own)
    train(wrapped, own[-1])


@way
def adapter():
    own = model()
    adapted(own)
    train(Ddp(own), own[-1])


@way
def thawed_too_late():
    own = model()
    own[0].requires_grad_(False)
    wrapped = Ddp(own)
    own[0].requires_grad_(True)
    train(wrapped, own)


@way
def thawed():
    own = model()
    own[0].requires_grad_(False)
    own[0].requires_grad_(True)
    train(Ddp(own), own)


def actor_and_critic(actor, critic):
    """Train two models in turns, each by an optimizer of its own."""
    both = [(each, torch.optim.SGD(each.parameters(), lr=0.05)) for each in (actor, critic)]
    for step in range(STEPS):
        for each, optimizer in both:
            each(batch(step)).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()


@way
def critic_alone():
    actor_and_critic(Ddp(model()), torch.nn.Linear(8, 4))


@way
def actor_alone():
    actor_and_critic(model(), Ddp(torch.nn.Linear(8, 4)))


@way
def critic():
    actor_and_critic(Ddp(model()), Ddp(torch.nn.Linear(8, 4)))


def hooked(hook):
    wrapped = Ddp(model())
    wrapped.register_comm_hook(None, hook)
    train(wrapped, wrapped)


@way
def hook_that_sends_nothing():
    def keep(_, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    hooked(keep)


@way
def hook():
    hooked(default_hooks.allreduce_hook)


@way
def auxiliary_loss_outside():
    wrapped = Ddp(model())

    def alone(_):
        wrapped.module(batch(99)).mean().backward()

    train(wrapped, wrapped, before=alone)


@way
def auxiliary_loss():
    wrapped = Ddp(model())
    train(lambda data: torch.cat((wrapped(data), wrapped(batch(99)))), wrapped)


@way
def own_seeds():
    own = model()
    for each in own.parameters():
        each.data += dist.get_rank()
    train(own, own)


@way
def own_seeds_wrapped():
    own = model()
    for each in own.parameters():
        each.data += dist.get_rank()
    wrapped = Ddp(own)
    train(wrapped, wrapped)


def mean(parameters, group=None):
    """Share gradients by hand."""
    for each in parameters:
        dist.all_reduce(each.grad, group=group)
        each.grad /= dist.get_world_size()


@way
def reduced():
    own = model()
    train(own, own, before=mean)


@way
def reduce_forgotten():
    own = model()
    train(own, own, before=lambda _: dist.barrier())


@way
def reduced_of_a_copy():
    own = model()

    def copies(parameters):
        for each in parameters:
            dist.all_reduce(each.grad.clone())

    train(own, own, before=copies)


@way
def reduced_after_the_step():
    own = model()
    train(own, own, after=mean)


@way
def reduced_to_one_rank():
    own = model()

    def to_one(parameters):
        for each in parameters:
            dist.reduce(each.grad, dst=0)

    train(own, own, before=to_one)


@way
def reduced_in_part():
    own = model()
    train(own, own, before=lambda parameters: mean(parameters[:2]))


@way
def reduced_in_a_group_of_one():
    groups = [dist.new_group([rank]) for rank in range(dist.get_world_size())]
    own = model()
    train(own, own, before=lambda parameters: mean(parameters, groups[dist.get_rank()]))


def mesh():
    """Nodes and the ranks of each."""
    each = int(os.environ["LOCAL_WORLD_SIZE"])
    return init_device_mesh("cpu", (dist.get_world_size() // each, each), mesh_dim_names=("nodes", "ranks"))


@way
def reduced_in_the_node():
    group, own = mesh().get_group("ranks"), model()
    train(own, own, before=lambda parameters: mean(parameters, group))


@way
def reduced_in_the_node_and_between():
    found, own = mesh(), model()

    def twice(parameters):
        for each in parameters:
            for name in ("ranks", "nodes"):
                dist.all_reduce(each.grad, group=found.get_group(name))

    train(own, own, before=twice)


@way
def sharded_in_the_node():
    own = model()
    fully_shard(own, mesh=mesh()["ranks"])
    train(own, own)


@way
def sharded_in_the_node_and_replicated():
    own = model()
    fully_shard(own, mesh=mesh())
    train(own, own)


@way
def sharded():
    own = model()
    fully_shard(own, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    train(own, own)


@way
def sharded_a_copy():
    own = model()
    fully_shard(copy.deepcopy(own), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    train(own, own)


@way
def averaged():
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager  # noqa: PLC0415  # as programs do

    own, averager = model(), PeriodicModelAverager(period=2)
    train(own, own, after=averager.average_parameters)


def split_states_of(own):
    from torch.distributed.optim import ZeroRedundancyOptimizer  # noqa: PLC0415  # it imports averagers too

    train(own, optimizer=ZeroRedundancyOptimizer(own.parameters(), torch.optim.SGD, lr=0.05))


@way
def split_states():
    split_states_of(Ddp(model()))


@way
def split_states_alone():
    split_states_of(model())


def experts(*more):
    """Have an expert on each rank, which others do not share; also `more` by mistake."""
    whole = model()
    whole.append(torch.nn.Linear(4, 4))
    for each in whole[2].parameters():
        each.allreduce = False
        each.data += dist.get_rank()
    Ddp._set_params_and_buffers_to_ignore_for_model(whole, ["2.weight", "2.bias", *more])  # as its users do
    wrapped = Ddp(whole)
    train(wrapped, wrapped)


@way
def own_experts():
    experts()


@way
def own_experts_and_router():
    experts("0.weight", "0.bias")


@way
def tensor_parallel():
    """Two ranks have halves of each layer, and one batch; the nodes have others, and share gradients."""
    found = mesh()
    whole = parallelize_module(model(), found["ranks"], {"0": ColwiseParallel(), "2": RowwiseParallel()})

    def between(parameters):
        for each in parameters:
            dist.all_reduce(each.grad.to_local(), group=found.get_group("nodes"))

    node = found.get_coordinate()[0]
    train(lambda data: whole(batch(int(data[0, 0] > 0), node)), whole, before=between)


dist.init_process_group("gloo")
WAYS[sys.argv[1]]()
end()
