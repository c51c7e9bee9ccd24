"""The emergency in docs/upgrade.md, read and carried out: its commands, as a person with kubectl types them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster.places import REPOSITORY
from e2e.suites.support.kubectls import Kubectl

__all__ = ["Page", "blocks", "emergency"]

_PAGE = REPOSITORY / "docs" / "upgrade.md"
_EMERGENCY = re.compile(r"^## Emergency: [^\n]+\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r"^##+ ([^\n]+)\n(.*?)(?=^#|\Z)", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def emergency() -> str:
    """Return the part of the page about the emergency; the rest is about upgrades of a healthy Muster."""
    found = _EMERGENCY.search(_PAGE.read_text(encoding="utf-8"))
    assert found, f"{_PAGE} has no section about the emergency"
    return found[1]


def blocks() -> dict[str, str]:
    """Return the block of commands of each section that has one, by the section's heading."""
    # A comment in a block would begin like a heading; these blocks have none.
    sections = _SECTION.findall(emergency())
    found = {heading: _BLOCK.findall(text) for heading, text in sections}
    assert all(len(each) <= 1 for each in found.values()), "a section has two blocks; give each a heading"
    return {heading: each[0] for heading, each in found.items() if each}


class Page:
    """The page in the hands of a person with a folder, whose kubectl is the cluster's administrator.

    Args:
        kubectl: kubectl for the cluster.
        folder: the folder where commands run and leave their files.
        variables: env of the commands, such as `NAMESPACE`.

    Attributes:
        folder: the folder.
    """

    def __init__(self, kubectl: Kubectl, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self._environment = {**os.environ, **kubectl.environment, **variables}
        programs = folder / "bin"
        programs.mkdir()
        words = shlex.join([kubectl.binary, "--kubeconfig", kubectl.kubeconfig])
        (programs / "kubectl").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / "kubectl").chmod(0o755)
        self._environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def run(self, heading: str) -> str:
        """Run the commands of a section; return what they printed.

        Raises:
            AssertionError: one of them failed.
        """
        shell = ["/bin/sh", "-euc", blocks()[heading]]
        done = subprocess.run(
            shell, cwd=self.folder, env=self._environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{heading}: ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def file(self, name: str) -> str:
        """Return what a command has left in a file."""
        return (self.folder / name).read_text(encoding="utf-8")
