"""Brings a cluster up, step by step, and takes it down whatever state it is in."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from e2e.cluster import builds, commands, controlplane, credentials, kwok, loopbacks, node, processes, sites, upstream
from e2e.cluster.errors import ClusterError
from e2e.cluster.places import REPOSITORY, Places

__all__ = ["MODULES", "down", "up"]

MODULES: Mapping[sites.Tier, tuple[str, ...]] = {
    "control-plane": ("kubernetes",),
    "node": ("kubernetes", "containerd", "coredns", "dradriver"),
}
"""The modules of `e2e/binaries` that a cluster of a tier runs."""


def up(places: Places, tier: sites.Tier, images: Sequence[str] = (), further: Collection[str] = ()) -> None:
    """Bring a cluster up in its state folder; one that is up gets the images that it has not, and nothing else.

    Args:
        places: of the cluster.
        tier: what kind of cluster.
        images: of trainings, for the node tier: keys of `e2e.cluster.node.trainings.RECIPES`.
        further: modules of `e2e/binaries` whose programs are to lie beside kubectl.

    Raises:
        ClusterError: it cannot be built or started; what was started until then keeps running, for its logs, until
            `down`.
    """
    if images and tier != "node":
        raise ClusterError("--images: only the node tier has a node that runs pods; use --tier node")
    running = bool(processes.running(places))
    if running:
        _check_same(places, tier)
        if not images:
            return
    binaries = builds.binaries({*MODULES[tier], *further})
    trainings = node.build(images) if images else []
    if not running:
        _bring_up(places, tier, binaries)
    if trainings:
        node.give(places, binaries, trainings)


def _bring_up(places: Places, tier: sites.Tier, binaries: Path) -> None:
    places.remove()
    places.make()
    begun = time.monotonic()
    site = node.prepare(places, binaries) if tier == "node" else loopbacks.prepare()
    site.save(places)
    credentials.make(places, site)
    controlplane.start(places, site, binaries)
    kwok.start(places, site, binaries)
    kubectl = binaries / "kubectl"
    upstream.apply(kubectl, [kwok.node("kwok-0"), kwok.node("kwok-1")], places.kubeconfig)
    tiers = {"control-plane": loopbacks.install, "node": node.install}
    tiers[tier](places, site, binaries)
    upstream.apply(kubectl, upstream.runtimes(kubectl, places.state / "upstream" / "runtimes"), places.kubeconfig)
    _write_env(places, site, binaries)
    commands.say(f"{tier} tier is up in {time.monotonic() - begun:.0f} s: {places.state}")


def down(places: Places) -> None:
    """End what runs for this cluster and remove its folder; also after a crash in the middle of `up`."""
    node.clear(places)
    processes.end_all(places)
    places.remove()


def _check_same(places: Places, tier: sites.Tier) -> None:
    if not places.env.exists():
        raise ClusterError(f"{places.state}: an earlier start of this cluster did not come to its end; bring it down")
    if sites.load(places).tier != tier:
        raise ClusterError(f"{places.state}: a cluster of the other tier is up here; bring it down first")


def _write_env(places: Places, site: sites.Site, binaries: Path) -> None:
    again = [sys.executable, "-m", "e2e.cluster", "restart", "kube-apiserver", "--kill", "--state", str(places.state)]
    values = {
        "KUBECONFIG": places.kubeconfig,
        "MUSTER_E2E_KUBECTL": binaries / "kubectl",
        "MUSTER_E2E_STATE": places.state,
        "MUSTER_E2E_TIER": site.tier,
        "MUSTER_E2E_RESTART_API_SERVER": f"cd {shlex.quote(str(REPOSITORY))} && {shlex.join(again)}",
    }
    places.env.write_text("".join(f"{key}={shlex.quote(str(value))}\n" for key, value in values.items()))
