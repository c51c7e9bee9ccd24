"""The steps of the node tier, in the order in which they depend on each other.

Importing the images takes the longest, so it runs in the background from the moment that the container runtime answers,
while the control plane starts.
"""

from __future__ import annotations

import dataclasses
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import commands, packages, processes, sites
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import (
    containerd,
    drivers,
    images,
    kubelets,
    mounts,
    proxies,
    requirements,
    sandboxes,
    trainings,
    workloads,
)
from e2e.cluster.places import Places

__all__ = ["build", "clear", "give", "install", "prepare"]

_PATIENCE = 120.0
# Inside the sandbox every port is free.
_FIRST_PORT = 20001
_IMPORT = "images"


def prepare(places: Places, binaries: Path) -> sites.Site:
    """Build the images, make the sandbox and start the container runtime; return the site of the other components.

    Raises:
        ClusterError: this machine lacks something, which the message names, or a step failed.
    """
    _ensure()
    (places.state / "node").mkdir(exist_ok=True)
    archive = images.archive(workloads.rendered(places, binaries / "kubectl").images(binaries))
    sandbox = sandboxes.create(places)
    containerd.start(sandbox, binaries, images.PAUSE)
    containerd.wait(sandbox, binaries)
    processes.start(places, _IMPORT, containerd.importing(sandbox, binaries, archive))
    ports = range(_FIRST_PORT, _FIRST_PORT + len(dataclasses.fields(sites.Ports)))
    return sites.Site(
        tier="node",
        address=sandbox.address,
        ports=sites.Ports(*ports),
        prefix=tuple(sandbox.prefix()),
        services=sandbox.service_cidr,
        pods=sandbox.pod_cidr,
        dns=sandbox.dns_address,
    )


def install(places: Places, site: sites.Site, binaries: Path) -> None:
    """Make the node and install JobSet, Trainer and Muster on it; the API server is up.

    Raises:
        ClusterError: a step failed or took too long; the message names the log.
    """
    sandbox = _sandbox(places)
    kubelets.start(sandbox, site, binaries)
    proxies.start(sandbox, binaries)
    _wait_for_images(places, sandbox, binaries)
    kubectl = binaries / "kubectl"
    kubelets.advertise(places, kubectl)
    drivers.start(sandbox, binaries)
    workloads.install(places, kubectl, workloads.rendered(places, kubectl))
    drivers.wait(places, kubectl)


def build(images: Sequence[str]) -> list[trainings.Built]:
    """Build images of trainings that are not in the cache.

    Raises:
        ClusterError: this machine lacks something, which the message names, or an image cannot be built.
    """
    _ensure()
    return trainings.built(images)


def give(places: Places, binaries: Path, wanted: Sequence[trainings.Built]) -> None:
    """Give a running node images of trainings; it may have them already.

    Raises:
        ClusterError: a step failed.
    """
    mounts.mount(_sandbox(places), binaries, wanted)


def clear(places: Places) -> None:
    """Remove all that the node tier has outside of the state folder, and end all that runs in its sandbox."""
    sandboxes.destroy(places)
    shutil.rmtree(places.state / "node", ignore_errors=True)


def _ensure() -> None:
    if lacks := requirements.missing():
        raise ClusterError(f"the node tier cannot run on this machine; it needs: {'; '.join(lacks)}")
    packages.ensure()


def _sandbox(places: Places) -> sandboxes.Sandbox:
    sandbox = sandboxes.find(places)
    if sandbox is None:
        raise ClusterError(f"{places.state}: the sandbox has ended; see {places.log('sandbox')}")
    return sandbox


def _wait_for_images(places: Places, sandbox: sandboxes.Sandbox, binaries: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while processes.running(places, _IMPORT):
        if time.monotonic() > deadline:
            raise ClusterError(f"the images are not imported after {_PATIENCE:.0f} s; see {places.log(_IMPORT)}")
        time.sleep(0.1)
    known = sandbox.run(*containerd.client(binaries), "images", "list", "--quiet")
    if images.PROBE not in known.split():
        commands.say(places.log(_IMPORT).read_text())
        raise ClusterError(f"the images were not imported; see {places.log(_IMPORT)}")
