"""References: variables by which nodes meet, whose value names another one that Kubernetes does not know yet.

Kubernetes expands $(NAME) in the value of a variable only where NAME stands before it in the list, and leaves the
others as they are written (kubernetes `pkg/kubelet/kubelet_pods.go` makeEnvironmentVariables). Trainer writes
PET_* behind the variables of the job and of its runtime (`plugins/torch/torch.go`), and Muster behind all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from muster.strategies.documents import names
from muster.strategies.documents.findings import beginning
from muster.strategies.jobs.jobs import Job
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["Left", "left_as_written"]

_REFERENCE = re.compile(r"\$\(([A-Za-z_]\w*)\)")
_READ = {
    Launcher.PYTHON: (names.MASTER_ADDR, names.MASTER_PORT, "RANK", "WORLD_SIZE", "NODE_RANK"),
    Launcher.TORCHRUN: (*sorted(names.RESERVED_ENV), "PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT", "PET_RDZV_ID"),
}
_WRITTEN_LATER = names.RESERVED_ENV | {names.MASTER_ADDR, names.MASTER_PORT}
_SHOWN = 80


class Left(NamedTuple):
    """A variable that is not expanded: its name, its value, and why, as a clause with a cure."""

    name: str
    value: str
    message: str


def left_as_written(job: Job, site: Site, launch: Launch) -> Iterator[Left]:
    """Yield the variables that a launch reads, and whose value stays as it is written."""
    read = () if launch.cleared else _READ.get(launch.launcher, ())
    named = [name for name in read if "$(" in (site.values.get(name) or "") and name not in launch.env]
    if not named or (job.container is not None and job.container.container.env_from):
        return
    first: dict[str, int] = {}
    for index, entry in enumerate(site.env):
        first.setdefault(entry.name, index)
    of_trainer = job.kind == "TrainJob"
    for name in named:
        if of_trainer and name in names.RESERVED_ENV:
            continue  # Trainer writes its own over it
        text = site.values[name] or ""
        for inner in _REFERENCE.findall(text):
            behind = first.get(inner, len(site.env) if of_trainer and inner in _WRITTEN_LATER else -1) > first[name]
            if behind and f"$$({inner})" not in text:
                where = "is written behind it" if inner not in first else f"stands behind {name} in the list"
                message = (
                    f"names {inner}, which {where}, so Kubernetes leaves $({inner}) as text; remove the variable, or "
                    f"write $({inner}) into the command, where all are known"
                )
                yield Left(name, beginning(text, _SHOWN), message)
                break
