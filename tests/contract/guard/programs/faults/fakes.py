"""A fake list of CUDA devices, since the machines of the tests have none: FAKE_GPUS of them, of this node.

`show` puts it where torch has its own functions; what CUDA_VISIBLE_DEVICES says at that time counts, as in CUDA.
Tensors stay on the CPU; `use` says which device this process trains on.
"""

import os
from types import SimpleNamespace

import torch


def show():
    """Show the devices of this node, as far as CUDA_VISIBLE_DEVICES does; return how many there are."""
    node = os.environ["PET_NODE_RANK"]
    every = [f"GPU-{node}-{number}" for number in range(int(os.environ.get("FAKE_GPUS", "0")))]
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    seen = every if shown is None else [every[int(each)] for each in shown.split(",") if each]
    used = []
    cuda = torch.cuda
    cuda.is_initialized = lambda: True
    cuda.is_current_stream_capturing = lambda: False
    cuda.device_count = lambda: len(seen)
    cuda.set_device = lambda number: used.append(range(len(seen))[number])
    cuda.current_device = lambda: used[-1] if used else 0
    cuda.memory_reserved = lambda number=0: (1 << 21) * (number in used)
    cuda.get_device_properties = lambda number=0: SimpleNamespace(name="NVIDIA H100", uuid=seen[number])
    return len(seen)


def use(*numbers):
    """Have memory of this process on devices; the last is the current one."""
    for each in numbers:
        torch.cuda.set_device(each)
