"""The images that train and serve, built from their Dockerfiles as for production, and kept as folders of layers.

torch for CUDA makes each of them larger than all other images together. So there is no archive of them: a layer is one
folder in the cache, named by its digest and shared by all images that have it, which a cluster mounts (`mounts`). The
folder's files are those of buildah's own storage, by hard links, so that on disk there is one copy.

    CACHE/trainings/storage                 buildah's
    CACHE/trainings/layers/SHA256           the files of one layer
    CACHE/trainings/NAME-KEY.json           an image that was built from what KEY is the hash of
"""

from __future__ import annotations

import hashlib
import json
import shlex
import shutil
import string
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import builds, commands
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import bases, builders, storages
from e2e.cluster.places import REPOSITORY, cache

__all__ = ["FOREIGN", "RECIPES", "Built", "Recipe", "built"]

_KEPT = 2


@dataclass(frozen=True, slots=True)
class Recipe:
    """How an image is built.

    Attributes:
        folder: the folder of the Dockerfile in the repository.
        arguments: the build arguments of the Dockerfile, without BASE.
    """

    folder: str
    arguments: Mapping[str, str]

    @property
    def dockerfile(self) -> str:
        """Its path in the repository."""
        return f"{self.folder}/Dockerfile"


FOREIGN = ("pip", "conda", "customized", "searching", "entered")
"""Kinds of images that are not Muster's, for the suite `guard`: the stages of their Dockerfile."""

RECIPES: Mapping[str, Recipe] = {
    "trl": Recipe("images/trl", {}),
    "torchtune": Recipe("images/torchtune", {}),
    "vllm": Recipe("images/vllm", {"DEVICE": "cpu"}),
    "rl": Recipe("images/rl", {"DEVICE": "cpu"}),
    "engine": Recipe("images/engine", {}),
    "gateway": Recipe("images/gateway", {}),
    **{f"foreign-{kind}": Recipe("e2e/images/foreign", {"KIND": kind}) for kind in FOREIGN},
}
"""The images that `--images` can name."""


@dataclass(frozen=True, slots=True)
class Built:
    """An image in the cache.

    Attributes:
        name: the name by which pods ask for it.
        config: its configuration, a JSON text (OCI image specification 1.1).
        layers: bottom first; their folders are in the cache.
    """

    name: str
    config: str
    layers: tuple[storages.Layer, ...]


def built(names: Sequence[str]) -> list[Built]:
    """Return these images; those that are not in the cache are built first, with network, in about five minutes.

    Args:
        names: keys of `RECIPES`.

    Raises:
        ClusterError: a recipe is unknown, or an image cannot be built; the message ends with the builder's output.
    """
    if unknown := [name for name in names if name not in RECIPES]:
        raise ClusterError(f"--images {','.join(unknown)}: is unknown; use {', '.join(RECIPES)}")
    place = _place()
    with builds.locked(place):
        found = [_ready(place, name) for name in names]
        _forget(place)
    return found


def _place() -> Path:
    return cache() / "trainings"


def _ready(place: Path, name: str) -> Built:
    record = place / f"{name}-{_key(RECIPES[name])}.json"
    image = _load(place, record)
    if image is None:
        image = _build(place, name)
        layers = [[layer.digest, layer.size] for layer in image.layers]
        record.write_text(json.dumps({"name": image.name, "config": image.config, "layers": layers}))
    record.touch()
    return image


def _load(place: Path, record: Path) -> Built | None:
    if not record.exists():
        return None
    document = json.loads(record.read_text())
    layers = tuple(storages.Layer(digest, size, _folder(place, digest)) for digest, size in document["layers"])
    if not all(layer.folder.is_dir() for layer in layers):
        return None
    return Built(document["name"], document["config"], layers)


def _build(place: Path, name: str) -> Built:
    begun, recipe = time.monotonic(), RECIPES[name]
    tagged = f"localhost/muster-{name}:e2e"
    commands.say(f"building {tagged}; the first image with torch takes minutes and gigabytes")
    builder = builders.Builder(place / "storage")
    base = builder.take_base()
    builder.build(tagged, recipe.dockerfile, {"BASE": base, **recipe.arguments}, place / f"{name}.log")
    config = json.loads(builder.run("inspect", "--type", "image", tagged))["Config"]
    layers = tuple(_keep(place, layer) for layer in storages.read(builder.root, tagged))
    if [layer.digest for layer in layers] != json.loads(config)["rootfs"]["diff_ids"]:
        raise ClusterError(f"{tagged}: the layers in {builder.root} are not those that its configuration names")
    builder.prune()
    commands.say(f"built {tagged} in {time.monotonic() - begun:.0f} s")
    return Built(tagged, config, layers)


def _keep(place: Path, layer: storages.Layer) -> storages.Layer:
    """Link the files of a layer of buildah's, which may forget them, to where they stay; complete or not at all."""
    folder = _folder(place, layer.digest)
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        commands.run(["cp", "--archive", "--link", str(layer.folder), str(partial)])
        partial.rename(folder)
    return storages.Layer(layer.digest, layer.size, folder)


def _folder(place: Path, digest: str) -> Path:
    return place / "layers" / digest.removeprefix("sha256:")


def _key(recipe: Recipe) -> str:
    digest = hashlib.sha256(f"{bases.layer().name} {dict(recipe.arguments)}\n".encode())
    for path in _sources(recipe):
        digest.update(f"{path.relative_to(REPOSITORY)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def _sources(recipe: Recipe) -> Iterator[Path]:
    """Yield the Dockerfile and every file that it copies from the repository."""
    dockerfile = REPOSITORY / recipe.dockerfile
    yield dockerfile
    for line in dockerfile.read_text().splitlines():
        if not line.startswith("COPY ") or "--from=" in line:
            continue
        written = string.Template(line).safe_substitute(recipe.arguments)
        named = [word for word in shlex.split(written)[1:] if not word.startswith("--")]
        for name in named[:-1]:
            path = REPOSITORY / name
            if not path.exists():
                raise ClusterError(f"{recipe.dockerfile}: {line}: {name} does not exist")
            files = path.rglob("*") if path.is_dir() else [path]
            yield from sorted(each for each in files if each.is_file() and "__pycache__" not in each.parts)


def _forget(place: Path) -> None:
    """Remove all but the builds of each image that were used last, and the layers that none of those has."""
    for name in RECIPES:
        records = sorted(place.glob(f"{name}-*.json"), key=lambda each: each.stat().st_mtime)
        for old in records[:-_KEPT]:
            old.unlink()
    wanted = set(_digests(place.glob("*-*.json")))
    for folder in (place / "layers").glob("*"):
        if f"sha256:{folder.name}" not in wanted:
            shutil.rmtree(folder)


def _digests(records: Iterable[Path]) -> Iterator[str]:
    for record in records:
        for digest, _ in json.loads(record.read_text())["layers"]:
            yield digest
