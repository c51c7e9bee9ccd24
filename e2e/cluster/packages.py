"""The Debian packages that the node tier runs, and how they get here: installed when root, else named.

Everything else is built from Go modules; these are tools of the kernel's side (runc, nft, conntrack) and of image
building (buildah, debootstrap).
"""

from __future__ import annotations

import os
import shutil

from e2e.cluster import builds, commands, places
from e2e.cluster.errors import ClusterError

__all__ = ["COMMANDS", "ensure", "missing"]

COMMANDS = {
    "runc": "runc",
    "nft": "nftables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}
"""Command to the Debian package that has it."""

_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def missing() -> list[str]:
    """The packages whose commands are not here."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS))
    return [package for command, package in COMMANDS.items() if shutil.which(command, path=path) is None]


def ensure() -> None:
    """Install what is missing.

    Raises:
        ClusterError: not root, no apt-get, or the installation fails; names the packages.
    """
    wanted = missing()
    if not wanted:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(f"missing on this machine: {', '.join(wanted)}; as root: apt-get install {' '.join(wanted)}")
    commands.say(f"installing Debian packages: {', '.join(wanted)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with builds.locked(places.cache() / "apt"):
        commands.run(["apt-get", "update", "-qq"], timeout=300, environment=environment)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
        commands.run(install, timeout=600, environment=environment)
