"""The folders of clusters: the cache that clusters share, and the state folder of each cluster.

Both are outside the checkout, so that a fresh clone builds nothing again and `git clean` cannot pull a running
cluster's files away.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from e2e.cluster.errors import ClusterError

__all__ = ["REPOSITORY", "Places", "cache", "named"]

REPOSITORY = Path(__file__).resolve().parents[2]
"""The root of the checkout."""

_MARK = ".muster-cluster"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")


def cache() -> Path:
    """The folder of what is built once: `$MUSTER_CACHE`, else `muster` in the user's cache folder."""
    if folder := os.environ.get("MUSTER_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "muster"


@dataclass(frozen=True, slots=True)
class Places:
    """The files of one cluster, all below `state`."""

    state: Path

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def env(self) -> Path:
        """Lines KEY=VALUE for users of the cluster: the suites, a shell."""
        return self.state / "env"

    @property
    def description(self) -> Path:
        """JSON: tier, addresses, ports, and the components in the order of their start."""
        return self.state / "cluster.json"

    @property
    def credentials(self) -> Path:
        """Keys, tokens and certificates; readable by the owner alone."""
        return self.state / "credentials"

    @property
    def configs(self) -> Path:
        """Configuration files written for the components."""
        return self.state / "configs"

    def log(self, component: str) -> Path:
        """The output of a component."""
        return self.state / "logs" / f"{component}.log"

    def make(self) -> None:
        """Create the folders, and a mark by which `remove` knows them again."""
        for folder in (self.state, self.credentials, self.configs, self.state / "logs"):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (self.state / _MARK).touch()

    def remove(self) -> None:
        """Remove the state folder; do nothing when there is none.

        Raises:
            ClusterError: it is not empty and was not made by `make`: a mistyped `--state` must not delete other files.
        """
        if not self.state.exists():
            return
        if any(self.state.iterdir()) and not (self.state / _MARK).exists():
            raise ClusterError(f"--state {self.state}: is not the folder of a cluster; name an empty or a new folder")
        shutil.rmtree(self.state)


def named(name: str, state: Path | None = None) -> Places:
    """The places of the cluster called `name`, or of the one in folder `state`.

    Raises:
        ClusterError: the name cannot be part of a host name.
    """
    if not _NAME.fullmatch(name):
        raise ClusterError(f"--name {name}: use up to 31 lower-case letters, digits and dashes, first a letter")
    return Places((state or cache() / "clusters" / name).resolve())
