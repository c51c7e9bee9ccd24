"""Trainings on a fake list of devices, in one WAY of many: on own devices, on one together, or beside idle ones."""

import os
import sys

import fakes
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as Ddp
from trainings import end, model, train

LOCAL = int(os.environ.get("LOCAL_RANK", "0"))


def masked(devices):
    """Show this process other devices, as programs do that choose their own."""
    os.environ["CUDA_VISIBLE_DEVICES"] = devices
    fakes.show()
    fakes.use(0)


def of(number):
    """Use one device of those that there are; more ranks than devices begin again with the first."""
    fakes.use(number % fakes.show())


def of_half(share):
    """Let each rank of two see a part of the devices, and use all of these."""
    os.environ["CUDA_VISIBLE_DEVICES"] = share
    fakes.use(*range(fakes.show()))


def all_but(number):
    """Put layers on all devices but the last ones."""
    fakes.use(*range(fakes.show() - number))


WAYS = {
    "own-device": lambda: of(LOCAL),
    "first-device": lambda: of(0),
    "half-as-many": lambda: of(LOCAL // 2),
    "node-rank": lambda: of(int(os.environ["PET_NODE_RANK"])),
    "masked-own": lambda: masked(str(LOCAL)),
    "masked-first": lambda: masked("0"),
    "masked-own-half": lambda: of_half(f"{2 * LOCAL},{2 * LOCAL + 1}"),
    "masked-same-half": lambda: of_half("0,1"),
    "masked-one-of-two": lambda: of_half(f"{2 * LOCAL}"),
    "on-all": lambda: all_but(0),
    "on-all-but-one": lambda: all_but(1),
}

WAYS[sys.argv[1]]()
if "RANK" in os.environ:
    dist.init_process_group("gloo")
own = model()
trained = Ddp(own) if dist.is_initialized() else own
train(trained, trained)
end()
