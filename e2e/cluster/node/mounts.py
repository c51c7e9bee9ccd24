"""Gives a cluster's container runtime images whose layers are folders of the cache, without copying one.

An image that containerd imports is written twice: as blobs, and unpacked as snapshots. Here it is told of the image by
an archive with no layers in it, and each snapshot, when it is made, gets the layer's folder mounted over its own, read-
only. The mounts are the sandbox's and end with it. A runtime that was started again forgets images whose layers it has
no blobs of, until they are given again.

Source: containerd's `core/snapshots` for what a snapshot is, `plugins/snapshots/overlay` for where its files are; the
OCI image specification 1.1, "Layer ChainID", for what it is called.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from e2e.cluster import commands
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import containerd, layouts, storages
from e2e.cluster.node.sandboxes import Sandbox
from e2e.cluster.node.trainings import Built

__all__ = ["chained", "mount"]

_PATIENCE = 30.0
# What the kubelet's side of containerd marks an image with once it has taken notice of it.
_NOTICED = 'labels."io.cri-containerd.image"==managed'


def mount(sandbox: Sandbox, binaries: Path, images: Sequence[Built]) -> None:
    """Make images known to the container runtime, with all of their layers; those that it has are left alone.

    Raises:
        ClusterError: a step failed, or the runtime does not notice the images within 30 seconds.
    """
    begun = time.monotonic()
    client = containerd.client(binaries)
    known = {line.split()[0] for line in sandbox.run(*client, "snapshots", "list").splitlines()[1:]}
    for chain, parent, layer in _unique(images):
        if chain not in known:
            _add(sandbox, client, chain, parent, layer.folder)
    sandbox.run(*_importing(sandbox, binaries, images))
    _wait(sandbox, client, {image.name for image in images})
    commands.say(f"mounted {', '.join(image.name for image in images)} in {time.monotonic() - begun:.1f} s")


def chained(layers: Iterable[storages.Layer]) -> Iterator[tuple[str, str, storages.Layer]]:
    """Yield each layer after the name of its snapshot and that of the one below, which is empty for the first."""
    parent = ""
    for layer in layers:
        chain = layer.digest
        if parent:
            chain = f"sha256:{hashlib.sha256(f'{parent} {layer.digest}'.encode()).hexdigest()}"
        yield chain, parent, layer
        parent = chain


def _unique(images: Iterable[Built]) -> list[tuple[str, str, storages.Layer]]:
    return list({each[0]: each for image in images for each in chained(image.layers)}.values())


def _add(sandbox: Sandbox, client: Sequence[str], chain: str, parent: str, folder: Path) -> None:
    """Make the snapshot called `chain`; until it is committed under that name nothing uses it."""
    active = f"mounting {chain}"
    prepared = sandbox.run(*client, "snapshots", "prepare", "--mounts", active, *([parent] if parent else []))
    sandbox.run("mount", "--options", "bind,ro", str(folder), _files(json.loads(prepared)))
    sandbox.run(*client, "snapshots", "commit", chain, active)


def _files(mounts: Sequence[dict[str, object]]) -> str:
    """Where a prepared snapshot's own files go: the first of a chain is one folder, others are an overlay's upper."""
    (only,) = mounts
    options = only["Options"]
    assert isinstance(options, list)  # noqa: S101  # containerd's form
    uppers = [option.removeprefix("upperdir=") for option in options if option.startswith("upperdir=")]
    return uppers[0] if uppers else str(only["Source"])


def _importing(sandbox: Sandbox, binaries: Path, images: Iterable[Built]) -> list[str]:
    folder = sandbox.places.state / "node" / "trainings"
    shutil.rmtree(folder, ignore_errors=True)
    layout = layouts.Layout(folder)
    for image in images:
        layers = [layouts.uncompressed(each.digest, each.size) for each in image.layers]
        layout.add_built(image.name, image.config, layers)
    archive = folder.with_suffix(".tar")
    layout.pack(archive)
    return [*containerd.importing(sandbox, binaries, archive)[len(sandbox.prefix()) :], "--no-unpack"]


def _wait(sandbox: Sandbox, client: Sequence[str], names: set[str]) -> None:
    deadline = time.monotonic() + _PATIENCE
    while missing := names.difference(sandbox.run(*client, "images", "list", "--quiet", _NOTICED).split()):
        if time.monotonic() > deadline:
            raise ClusterError(f"the container runtime takes no notice of {', '.join(sorted(missing))}")
        time.sleep(0.1)
