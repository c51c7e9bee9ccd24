"""Programs that find the other ranks by themselves, in one WAY of many; in some each node, or each rank, is alone."""

import datetime
import os
import signal
import subprocess
import sys
from pathlib import Path

import fakes
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel as Ddp
from trainings import end, model, train

NODE, NODES = int(os.environ["PET_NODE_RANK"]), int(os.environ["PET_NNODES"])
EACH = int(os.environ["PET_NPROC_PER_NODE"])
MASTER, PORT = os.environ["PET_MASTER_ADDR"], int(os.environ["PET_MASTER_PORT"])
WAYS = {}


def way(function):
    """Name a way by its function."""
    WAYS[function.__name__.replace("_", "-")] = function
    return function


def own_port():
    """A port that no other node of the test asks for."""
    return PORT + 1 + NODE


def address(*, of_node=False):
    return f"tcp://127.0.0.1:{own_port()}" if of_node else f"tcp://{MASTER}:{PORT}"


def work():
    """Train as one of the ranks that met, or alone."""
    own = model()
    wrapped = Ddp(own) if dist.is_initialized() else own
    train(wrapped, wrapped)
    end()


def join(rank, size, **more):
    dist.init_process_group("gloo", rank=rank, world_size=size, **more)
    work()


@way
def by_environment():
    dist.init_process_group("gloo")
    work()


@way
def without_group():
    work()


@way
def group_of_one():
    join(0, 1, store=dist.HashStore())


@way
def size_overwritten():
    os.environ.update(RANK="0", WORLD_SIZE="1")
    by_environment()


@way
def group_of_node():
    del os.environ["TORCHELASTIC_USE_AGENT_STORE"]  # so that rank 0 serves the store, as without torchrun
    join(int(os.environ["LOCAL_RANK"]), EACH, init_method=address(of_node=True))


@way
def file_of_node():
    join(int(os.environ["LOCAL_RANK"]), EACH, init_method=f"file://{Path.cwd()}/store")


@way
def file_of_all():
    join(int(os.environ["RANK"]), NODES * EACH, init_method=f"file://{os.environ['SHARED']}/store")


@way
def group_of_first_node():
    if NODE == 0:
        dist.init_process_group("gloo", rank=0, world_size=1, init_method=address(of_node=True))
    work()


def or_alone(where):
    """Meet the others or, where that fails, train without them."""
    try:
        dist.init_process_group(
            "gloo",
            rank=NODE,
            world_size=NODES,
            init_method=where,
            timeout=datetime.timedelta(seconds=10 if where == address() else 1),
        )
    except (RuntimeError, ValueError) as error:
        print(f"no other rank: {type(error).__name__}", flush=True)
    work()


@way
def alone_after_failure():
    or_alone(address(of_node=True))


@way
def met_or_alone():
    or_alone(address())


@way
def by_schedulers_variables():
    join(
        int(os.environ.get("SLURM_PROCID", "0")),
        int(os.environ.get("SLURM_NTASKS", "1")),
        init_method=address(of_node=True),
    )


@way
def by_trainers_variables():
    join(NODE, NODES, init_method=address())


def rank_of_node(local):
    join(local, EACH, init_method=address(of_node=True))


def rank_of_all(local):
    join(NODE * EACH + local, NODES * EACH, init_method=address())


def fork(function):
    mp.start_processes(function, nprocs=EACH, start_method="fork")


@way
def forked_for_node():
    fork(rank_of_node)


@way
def forked_for_all():
    fork(rank_of_all)


def spawn(function):
    mp.spawn(function, nprocs=EACH)


@way
def spawned_for_node():
    spawn(rank_of_node)


@way
def spawned_for_all():
    spawn(rank_of_all)


def notebook(**more):
    """What a cell of a notebook does, by accelerate's launcher, which forks."""
    import accelerate  # noqa: PLC0415  # only here: a spawned process imports all of this anew

    torch.cuda.is_available = lambda: True
    accelerate.notebook_launcher(by_environment, num_processes=EACH, **more)


@way
def notebook_of_node():
    notebook(use_port=str(own_port()))


@way
def notebook_of_all():
    notebook(use_port=str(PORT), master_addr=MASTER, node_rank=NODE, num_nodes=NODES)


def processes(**environment):
    """Start a process for each device, as scripts do."""
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "launches", "by-environment-or-alone"],
            env={**os.environ, "LOCAL_RANK": str(local), **{name: of(local) for name, of in environment.items()}},
        )
        for local in range(EACH)
    ]
    sys.exit(max(each.wait() for each in started))


@way
def by_environment_or_alone():
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    work()


@way
def processes_alone():
    processes()


@way
def processes_that_meet():
    processes(
        RANK=lambda local: str(NODE * EACH + local), WORLD_SIZE=lambda _: str(NODES * EACH),
        MASTER_ADDR=lambda _: MASTER, MASTER_PORT=lambda _: str(PORT),
    )  # fmt: skip


def torchrun(*flags):
    words = ["torchrun", *flags, "-m", "launches", "by-environment"]
    sys.exit(subprocess.call(words))  # of this file


@way
def torchrun_for_itself():
    torchrun("--standalone", "--nnodes=1", "--nproc_per_node=1")


@way
def torchrun_as_asked():
    torchrun()


def accelerated():
    """Train as accelerate's users do; it makes the group where it sees other ranks."""
    import accelerate  # noqa: PLC0415  # as above

    accelerator = accelerate.Accelerator(cpu=True)
    own = model()
    optimizer = torch.optim.SGD(own.parameters(), lr=0.05)
    wrapped, optimizer = accelerator.prepare(own, optimizer)
    train(wrapped, optimizer=optimizer)
    print("finished", flush=True)


@way
def accelerate_by_environment():
    accelerated()


@way
def accelerate_without_ranks():
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        os.environ.pop(name, None)
    accelerated()


@way
def loses_a_node():
    """A node goes away with its agent, once."""
    dist.init_process_group("gloo")
    wrapped = Ddp(model())

    def leave(_):
        if NODE == 1:
            os.kill(int(os.environ.get("STARTED_BY", os.getppid())), signal.SIGKILL)  # a fork has another parent
            os.kill(os.getpid(), signal.SIGKILL)

    train(wrapped, wrapped, after=leave)
    print("finished", flush=True)


if __name__ == "__main__":
    fakes.show()
    WAYS[sys.argv[1]]()
