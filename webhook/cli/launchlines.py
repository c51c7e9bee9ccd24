"""Launch lines: what a job will really run, as Muster read it, and how many ranks that makes."""

from __future__ import annotations

import shlex
from typing import Any

from muster.strategies.jobs.jobs import Job
from muster.strategies.launches import sites, topologies, worlds
from muster.strategies.launches.launches import Launch
from muster.strategies.launches.sites import Site
from muster.strategies.launches.worlds import World
from muster.webhook.cli import problems

__all__ = ["describe", "measure", "shown", "unread"]

_DIGITS = 9
_SHOWN = 3  # launches of one shell text


def describe(job: Job) -> str | None:
    """Return the launch of a job after mutation with its size; None for a job without a command line."""
    site = sites.find_site(job)
    if site is None or not site.argv:
        return None
    return f"{_words(site)}{_size(job, site)}"


def measure(job: Job) -> World | None:
    """Return what the launch of a job makes, None where that is not known."""
    return worlds.find_world(job) if _counts(job) else None


def unread(job: Job) -> bool:
    """Whether Muster cannot read what a launch starts: an image, a program or a text that it does not know."""
    site = sites.find_site(job)
    return site is not None and _counts(job) and (bool(site.reading.unread) or not site.reading.launches)


def shown(world: World | None) -> dict[str, Any] | None:
    """Return a world for JSON."""
    if world is None:
        return None
    return {
        "nodes": world.nodes,
        "processesPerNode": world.processes,
        "worldSize": world.world_size,
        "mayStartMore": world.own,
    }


def _words(site: Site) -> str:
    """Return the launches that were read inside a wrapper or a shell, else the command line itself."""
    inside = [launch for launch in site.reading.launches if launch.through]
    if not inside:
        return shlex.join(site.argv)
    told = [f"{_line(launch)}{'' if launch.certain else ', perhaps'}" for launch in inside[:_SHOWN]]
    more = f"; and {len(inside) - _SHOWN} more" if len(inside) > _SHOWN else ""
    return f"{'; '.join(told)}{more} (through {', '.join(inside[0].through)})"


def _line(launch: Launch) -> str:
    module = ("-m",) if launch.module else ()
    target = (launch.target,) if launch.target else ()
    return shlex.join((*launch.head, *launch.options, *module, *target, *launch.rest))


def _size(job: Job, site: Site) -> str:
    if not _counts(job):
        return ""
    world = worlds.find_world(job)
    if world is not None:
        return f" ({_told(world, topologies.pods_of(job))})"
    reading = site.reading
    why = reading.unread[0] if reading.unread else "" if reading.launches else "the image decides what it starts"
    return f" (its size is not known: {why or 'the launches differ'})"


def _told(world: World, pods: int) -> str:
    if world.fault or world.waits:
        return "it cannot run as the job asks; see below"
    if world.own and world.nodes is None:
        each = "1 node" if pods == 1 else f"each of {pods} nodes"
        return f"1 process on {each}; the program may start more"
    if world.nodes is None and world.processes is None:
        return f"its size is not known: {world.unknown}" if world.unknown else "its size is not known"
    processes = "an unknown number of processes"
    if world.processes is not None:
        processes = f"{world.processes} process{'' if world.processes == 1 else 'es'}"
    return f"{_nodes(world)} x {processes}{'; the program may start more' if world.may_start_more else ''}"


def _nodes(world: World) -> str:
    low, colon, high = world.launch.values.get("nnodes", "").partition(":")
    if world.nodes is None and colon and low.isdecimal() and high.isdecimal():
        return f"{low[:_DIGITS]} to {high[:_DIGITS]} nodes"
    return "an unknown number of nodes" if world.nodes is None else problems.plural(world.nodes, "node")


def _counts(job: Job) -> bool:
    """Whether the job trains by torch.distributed, so that its size can be told."""
    if job.kind == "JobSet" and job.owner is None:
        return job.runtime is None or job.runtime.is_torch
    return job.runtime is not None and job.runtime.is_torch
