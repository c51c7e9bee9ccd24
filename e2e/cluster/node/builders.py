"""Builds images from their Dockerfiles by buildah, as for production, on the base of `bases.py`.

buildah keeps each step of a Dockerfile in its storage, so that only the steps after a change are built again.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster import commands
from e2e.cluster.errors import ClusterError
from e2e.cluster.node import bases, layouts
from e2e.cluster.places import REPOSITORY

__all__ = ["Builder"]

_BASE = "localhost/muster-base"
_TAIL = 4000


@dataclass(frozen=True, slots=True)
class Builder:
    """buildah with its own storage; one process at a time uses it, and holds the caller's lock.

    Attributes:
        storage: a folder, not on an overlay; its mounts end with the command that made them.
    """

    storage: Path

    @property
    def root(self) -> Path:
        """The folder of the layers and images, as containers/storage lays them out."""
        return self.storage / "root"

    def take_base(self) -> str:
        """Put the base into the storage, and remove what an interrupted build left; return the name for `build`.

        Raises:
            ClusterError: debootstrap or buildah failed.
        """
        layer = bases.layer()
        name = f"{_BASE}:{layer.stem}"
        self.run("rm", "--all")
        folder = self.storage.with_suffix(".base")
        layout = layouts.Layout(folder)
        layout.add_image(_BASE, [layout.add_layer(layer)], ["/bin/sh"])
        layout.write()
        # Run from its folder: buildah derives a name from the path, which fails for some paths.
        pulled = self.run("pull", "--quiet", f"oci:{folder.name}:{_BASE}", folder=folder.parent).split()[-1]
        self.run("tag", pulled, name)
        shutil.rmtree(folder)
        return name

    def build(self, name: str, dockerfile: str, arguments: Mapping[str, str], log: Path) -> None:
        """Build an image called `name`, whose context is the repository; print each step that takes long.

        Args:
            name: the name of the image; `prune` removes the image that had it before.
            dockerfile: its path in the repository.
            arguments: values of the Dockerfile's ARGs.
            log: the file for the output of buildah and the steps.

        Raises:
            ClusterError: a step failed; the message ends with the log.
        """
        given = [f"--build-arg={key}={value}" for key, value in arguments.items()]
        command = self._command(
            "bud", "--layers", "--pull-never", "--isolation=chroot", "--network=host",
            "--volume=/etc/ssl/certs:/etc/ssl/certs:ro", *given,
            f"--file={REPOSITORY / dockerfile}", f"--tag={name}", str(REPOSITORY),
        )  # fmt: skip
        with log.open("w") as written:
            building = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            assert building.stdout is not None  # noqa: S101  # asked for above
            with building:
                for line in building.stdout:
                    written.write(line)
                    written.flush()
                    if line.startswith("STEP") and ": RUN" in line:
                        commands.say(f"{name}: {line.strip()[:100]}")
        if building.returncode != 0:
            raise ClusterError(f"{dockerfile} cannot be built; see {log}:\n{log.read_text()[-_TAIL:]}")

    def prune(self) -> None:
        """Remove the steps that no named image uses."""
        self.run("rmi", "--prune", "--force")

    def run(self, command: str, *arguments: str, folder: Path | None = None) -> str:
        """Return what a command of buildah printed.

        Raises:
            ClusterError: the command failed; the message contains its output.
        """
        return commands.run(self._command(command, *arguments), folder=folder)

    def _command(self, command: str, *arguments: str) -> Sequence[str]:
        places = ["--root", str(self.root), "--runroot", str(self.storage / "run"), "--storage-driver", "overlay"]
        return [*bases.ISOLATED, "buildah", *places, command, *arguments]
