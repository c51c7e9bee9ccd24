"""The Debian packages that the node tier and the tests need: installed when root, else reported.

Everything else is built from Go modules; these are tools of the kernel's side (runc, nft, conntrack), of image
building (buildah, debootstrap), and the browser that looks at the audit pages.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from e2e.cluster import builds, places
from e2e.cluster import commands as programs
from e2e.cluster.errors import ClusterError

__all__ = ["BROWSER", "COMMANDS", "ensure", "missing"]

COMMANDS = {
    "runc": "runc",
    "nft": "nftables",
    "conntrack": "conntrack",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
}
"""Command to the Debian package that has it."""

BROWSER = {"chromium-headless-shell": "chromium-headless-shell"}
"""The same for the tests of the audit pages."""

_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def missing(commands: Mapping[str, str] = COMMANDS) -> list[str]:
    """The packages whose commands are missing."""
    path = os.pathsep.join((os.environ.get("PATH", ""), *_FOLDERS))
    return [package for command, package in commands.items() if shutil.which(command, path=path) is None]


def ensure(commands: Mapping[str, str] = COMMANDS, *further: str) -> None:
    """Install what is missing.

    Args:
        commands: the needed commands, with their packages.
        further: packages that are installed with them.

    Raises:
        ClusterError: this process is not root, apt-get is missing, or the installation fails; names the packages.
    """
    wanted = missing(commands)
    if not wanted:
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise ClusterError(f"this machine lacks {', '.join(wanted)}; as root, run apt-get install {' '.join(wanted)}")
    wanted = [*wanted, *further]
    programs.say(f"installing Debian packages: {', '.join(wanted)}")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with builds.locked(places.cache() / "apt"):
        programs.run(["apt-get", "update", "-qq"], timeout=300, environment=environment)
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *wanted]
        programs.run(install, timeout=600, environment=environment)
