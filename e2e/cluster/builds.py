"""Builds every binary of the cluster from the pinned Go modules, once.

Each module's binaries are a folder in the cache whose name is a hash of its pins, flags and sources: another pin is
another folder, of this module alone, and a folder that exists is complete, because it is built under another name and
renamed. Two builds at the same time wait for each other. Whoever asks names the modules that are needed, and sees one
folder of links to their binaries; the others are not built.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from e2e.cluster import commands, places, toolchains
from e2e.cluster.errors import ClusterError

__all__ = ["MODULES", "Module", "binaries", "locked", "module_folder", "version"]

_PINS = places.REPOSITORY / "e2e" / "binaries"
# kubectl and the controllers parse the version that the API server reports, and a build without it says v0.0.0.
_VERSIONED = "k8s.io/component-base/version"
_HELM = "helm.sh/helm/v4"


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module: its folder's name, its build tags, and how its binaries are renamed.

    Attributes:
        root: the folder of its folder; None for `e2e/binaries`. It is not a part of what names the built folder.
    """

    name: str
    tags: str = ""
    renames: tuple[tuple[str, str], ...] = ()
    root: Path | None = field(default=None, repr=False)

    @property
    def folder(self) -> Path:
        """Where its go.mod is."""
        return (self.root or _PINS) / self.name


MODULES = (
    Module("kubernetes", renames=(("server", "etcd"), ("jobset", "jobset-controller-manager"))),
    Module("containerd", tags="no_btrfs,no_devmapper,no_zfs"),
    Module("coredns"),
    Module("dradriver"),
    Module("helm"),
    Module("kind"),
    Module("certmanager"),
    Module("kueue"),
)


def binaries(modules: Iterable[str], others: Iterable[Module] = ()) -> Path:
    """The folder that holds the binaries of some modules, as links; what does not exist is built first.

    Args:
        modules: names of `MODULES`; their order means nothing.
        others: modules that are not among `MODULES`.

    Raises:
        ClusterError: a module is none of ours, there is no Go toolchain, or a build fails; with the compiler's output.
    """
    wanted = frozenset(modules)
    if unknown := wanted - {module.name for module in MODULES}:
        raise ClusterError(f"no module of e2e/binaries: {', '.join(sorted(unknown))}")
    folders = [_built(module) for module in (*(each for each in MODULES if each.name in wanted), *others)]
    digest = hashlib.sha256("\n".join(folder.name for folder in folders).encode())
    together = places.cache() / f"binaries-{digest.hexdigest()[:12]}"
    with locked(together):
        if not together.exists():
            _link(together, folders)
    return together


def module_folder(module: str | Module, path: str) -> Path:
    """The folder of Go module `path`, as pinned by our module `module`, in Go's module cache; fetched if need be."""
    listed = _go(_pins(module), "mod", "download", "-json", path)
    for line in listed.splitlines():
        if line.strip().startswith('"Dir":'):
            return Path(line.split('"')[3])
    raise ClusterError(f"go mod download {path} named no folder:\n{listed}")


def version(module: str | Module, path: str) -> str:
    """The pinned version of Go module `path`, such as v1.36.3."""
    return _go(_pins(module), "list", "-m", "-f", "{{.Version}}", path).strip()


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock beside `path`: others that build the same wait, then find it built."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(f".{path.name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _pins(module: str | Module) -> Path:
    return module.folder if isinstance(module, Module) else _PINS / module


def _built(module: Module) -> Path:
    folder = places.cache() / f"binaries-{module.name}-{_key(module)}"
    if not folder.exists():
        with locked(folder):
            if not folder.exists():
                _build(module, folder)
    return folder


def _key(module: Module) -> str:
    digest = hashlib.sha256(repr(module).encode())
    for file in (module.folder / "go.mod", module.folder / "go.sum", *sorted(module.folder.rglob("*.go"))):
        digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


def _build(module: Module, folder: Path) -> None:
    work = _emptied(folder)
    targets = _packages(module)
    begun = time.monotonic()
    commands.say(f"building {module.name}: {', '.join(target.rpartition('/')[2] for target in targets)}")
    flags = ["-ldflags", f"-s -w {_version_flags(module)}", "-o", f"{work}/"]
    # All in one command: while one program is linked, which takes one core, the next is compiled.
    _go(module.folder, "build", *flags, *(["-tags", module.tags] if module.tags else []), *targets)
    for before, after in module.renames:
        (work / before).rename(work / after)
    work.rename(folder)
    commands.say(f"built {module.name} in {int(time.monotonic() - begun)} s: {folder}")


def _link(together: Path, folders: Iterable[Path]) -> None:
    work = _emptied(together)
    for folder in folders:
        for binary in folder.iterdir():
            (work / binary.name).symlink_to(binary)
    work.rename(together)


def _emptied(folder: Path) -> Path:
    """An empty folder to make `folder` in."""
    work = folder.with_name(f"{folder.name}.partial")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    return work


def _packages(module: Module) -> list[str]:
    return sorted(_go(module.folder, "list", "tool").split())


def _version_flags(module: Module) -> str:
    if module.name == "helm":
        return f"-X {_HELM}/internal/version.version={version('helm', _HELM)}"
    if module.name != "kubernetes":
        return ""
    full = version("kubernetes", "k8s.io/kubernetes")
    major, minor, _ = full.removeprefix("v").split(".", 2)
    values = {"gitVersion": full, "gitMajor": major, "gitMinor": minor}
    return " ".join(f"-X {_VERSIONED}.{key}={value}" for key, value in values.items())


def _go(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly"}
    return commands.run([toolchains.find(), *arguments], folder=folder, environment=environment)
