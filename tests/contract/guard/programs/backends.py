"""Makes groups that are not gloo's and prints after each how many the guard has kept."""

import sys

import torch.distributed as dist
import torch.testing._internal.distributed.fake_pg  # noqa: F401  # registers the backend

groups = sys.modules["muster_guard.groups"]


class OfNCCL:
    """A group as `init_process_group("nccl")` makes it, which needs a GPU: it has no backend for the CPU."""

    def _get_backend(self, device):
        if device.type == "cpu":
            raise RuntimeError("No backend type associated with device type cpu")
        raise AssertionError("the guard has no business with what is on a GPU")


dist.init_process_group("fake", store=dist.HashStore(), rank=0, world_size=1)
print(f"kept {len(groups._kept)} of torch's fake backend")
groups._keep((dist.GroupMember.NON_GROUP_MEMBER, None))
print(f"kept {len(groups._kept)} of a group of others")
groups._keep((OfNCCL(), None))
print(f"kept {len(groups._kept)} of NCCL")
dist.new_group([0], backend="gloo")
print(f"kept {len(groups._kept)} of gloo beside another backend", flush=True)
