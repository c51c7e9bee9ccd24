"""Serving: a replicated job that answers a training's requests, as its labels and its command line describe it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from muster.strategies.documents import model, names, pods
from muster.strategies.documents.paths import Path
from muster.strategies.documents.pods import Place
from muster.strategies.frameworks.vllm import serve_arguments, vllm_servers
from muster.strategies.frameworks.vllm.vllm_servers import Form, Server
from muster.strategies.jobs import askings, containers, parts
from muster.strategies.jobs.containers import Identify
from muster.strategies.launches.launches import Launch, Launcher
from muster.strategies.launches.sites import Site

__all__ = ["Serving", "read", "role"]

_TRL = "trl.scripts.vllm_serve"
"""TRL's own command for a server, which executes vLLM's with the flags that TRL needs (of that name in trl)."""


_SUPERVISOR = "muster_weights.sampler.supervise"
"""A program of our images that runs the server behind it, and ends with 1 where that ends by itself."""


class Serving(Struct, frozen=True):
    """A replicated job that may be the sampler of a training.

    Attributes:
        place: its container that serves.
        site: the command line.
        server: vLLM's server in it, None for a program that Muster does not read.
        bare: whether flags at the end of the arguments reach the server.
        trls: whether TRL's own command starts it, which adds what TRL needs.
        labelled: whether a label says that it is a sampler.
    """

    place: Place
    site: Site
    server: Server | None
    bare: bool
    trls: bool
    labelled: bool

    @property
    def name(self) -> str:
        """Name of the replicated job."""
        return self.place.job_name

    @property
    def called(self) -> str:
        """What messages call it: `the sampler`, or `the sampler rollout`."""
        return "the sampler" if self.name == "sampler" else f"the sampler {self.name}"

    @property
    def pods(self) -> int:
        """How many pods it has at once."""
        return self.place.job.jobs * self.place.job.at_once


def role(job: model.ReplicatedJob, common: str | None) -> str | None:
    """Return what labels say that a replicated job is: its role, or `sampler` for a server of vLLM's framework.

    Args:
        job: the replicated job.
        common: the role of all of them.
    """
    levels = (job.template.spec.template.metadata.labels, job.labels)
    serves = any(labels.get(names.FRAMEWORK_LABEL) == "vllm" for labels in levels)
    return parts.role_of(job, common) or ("sampler" if serves else None)


def read(
    document: Mapping[str, Any], job_path: Path, job: model.ReplicatedJob, identify: Identify, common: str | None
) -> Serving | None:
    """Read the replicated job at `job_path`; None where nothing says that it serves."""
    asked = askings.of_job(job) or frozenset()
    place = pods.place(document, job_path, containers.choose(job.pod, identify, serves=True, asked=asked) or 0)
    own = place.container
    site = Site(own.command or (), own.args or (), bool(own.command), place.path, document, own.env)
    labelled = role(job, common) == "sampler"
    server, bare, trls = _server(site, own.image)
    return Serving(place, site, server, bare, trls, labelled) if labelled or server else None


def _server(site: Site, image: str) -> tuple[Server | None, bool, bool]:
    """Return the one server that a container starts, whether it is bare, and whether TRL's command starts it."""
    if site.launch.module and site.launch.target == _SUPERVISOR:
        site = structs.replace(site, command=site.launch.rest, args=())
    if site.command or "vllm" in image.rpartition("/")[2]:
        bare = vllm_servers.implied(site)
        if bare is not None:
            return bare, "--" not in site.argv, False
    found = [(server, launch) for launch in site.reading.launches if (server := _of(launch, site)) is not None]
    if len(found) != 1:
        return None, False, False
    server, launch = found[0]
    return server, False, not vllm_servers.starts(launch)


def _of(launch: Launch, site: Site) -> Server | None:
    if not (launch.launcher is Launcher.TRL and launch.target == "vllm-serve") and launch.target != _TRL:
        return vllm_servers.of_launch(launch, site.values)
    return Server(Form.MODULE, launch.rest, serve_arguments.parse(launch.rest), dict(launch.env), launch.certain)
