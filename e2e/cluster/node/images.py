"""The images of the node tier, in one archive that the node's container runtime imports at the start.

Muster's own is built from its Dockerfile by buildah, as for production, on the base of `bases.py`. JobSet's and
Trainer's are their static binary under the name that their manifests ask for; the probe, with which suites look at a
pod from inside, is the base and one program. The archive is kept in the cache by a hash of all that goes in.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from e2e.cluster import builds, commands
from e2e.cluster.node import bases, builders, layouts
from e2e.cluster.places import REPOSITORY, cache

__all__ = ["MUSTER", "PAUSE", "PROBE", "archive"]

MUSTER = "localhost/muster:e2e"
PAUSE = "localhost/muster-pause:e2e"
PROBE = "localhost/muster-probe:e2e"

_PROBE_PROGRAM = REPOSITORY / "e2e" / "images" / "probe" / "probe.py"
# What people launch trainings with: in the probe's image every one of them is the probe.
_LAUNCHERS = ("torchrun", "tune", "trl", "accelerate", "vllm", "probe")
_MUSTER_SOURCES = (
    ".dockerignore", "images/guard", "images/webhook", "requirements/run.lock", "pyproject.toml", "README.md",
    "LICENSE", "muster", "webhook", "strategies", "certs", "audit", "front", "kube", "manifests/runtimes",
)  # fmt: skip
_KEPT = 3


def archive(managers: Mapping[str, Path]) -> Path:
    """The archive with Muster's image, the probe, the pods' namespace holder and `managers` (image name to binary).

    Raises:
        ClusterError: an image cannot be built; the message ends with the builder's output.
    """
    base = bases.layer()
    path = cache() / f"images-{_key(base, managers)}.tar"
    with builds.locked(cache() / "images"):
        if not path.exists():
            _make(path, base, managers)
        path.touch()
        _forget(path.parent)
    return path


def _make(path: Path, base: Path, managers: Mapping[str, Path]) -> None:
    begun = time.monotonic()
    commands.say("building the images")
    folder = cache() / "images.layout"
    shutil.rmtree(folder, ignore_errors=True)
    layout = layouts.Layout(folder)
    _build_muster(folder)
    layout.adopt(MUSTER, MUSTER)
    bottom = layout.add_layer(base)
    layout.add_image(PAUSE, [bottom], ["/bin/sleep", "infinity"])
    launchers = {f"/usr/local/bin/{name}": "/usr/local/lib/probe.py" for name in _LAUNCHERS}
    program = layout.add_layer(layouts.files_layer({"/usr/local/lib/probe.py": _PROBE_PROGRAM}, launchers))
    layout.add_image(PROBE, [bottom, program], ["probe"])
    for name, binary in managers.items():
        manager = layout.add_layer(layouts.files_layer({"/manager": binary}))
        layout.add_image(name, [manager], ["/manager"], user="65532:65532")
    layout.pack(path)
    shutil.rmtree(folder)
    commands.say(f"built the images in {time.monotonic() - begun:.0f} s: {path}")


def _build_muster(layout: Path) -> None:
    builder = builders.Builder(cache() / "buildah")
    base = builder.take_base()
    builder.build(MUSTER, "images/webhook/Dockerfile", {"BASE": base}, cache() / "images.log")
    builder.run("push", "--quiet", "--disable-compression", MUSTER, f"oci:{layout}:{MUSTER}")
    builder.prune()


def _key(base: Path, managers: Mapping[str, Path]) -> str:
    digest = hashlib.sha256(base.name.encode())
    for name, binary in sorted(managers.items()):
        digest.update(f"{name} {binary}\n".encode())
    for file in (Path(__file__), Path(builders.__file__), Path(layouts.__file__), _PROBE_PROGRAM, *_sources()):
        digest.update(f"{file.relative_to(REPOSITORY)} {hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:12]


def _sources() -> Iterable[Path]:
    for name in _MUSTER_SOURCES:
        path = REPOSITORY / name
        found = path.rglob("*") if path.is_dir() else [path]
        yield from sorted(each for each in found if each.is_file() and "__pycache__" not in each.parts)


def _forget(folder: Path) -> None:
    """Remove all but the archives used last: each change of Muster makes one."""
    archives = sorted(folder.glob("images-*.tar"), key=lambda each: each.stat().st_mtime)
    for old in archives[:-_KEPT]:
        old.unlink()
