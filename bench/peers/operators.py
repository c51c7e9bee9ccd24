"""kopf, the framework of most Kubernetes operators in Python: `programs/operator.py`, run by kopf's own command."""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.peers import packages
from bench.peers.labs import Lab
from bench.peers.shapes import Served
from e2e.cluster import builds, commands, places

__all__ = ["KOPF", "Kopf"]

_PROGRAMS = Path(__file__).with_name("programs")
_PINS = _PROGRAMS / "requirements.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kopf(Served):
    """An operator with one handler, in an environment that is installed once."""

    def prepare(self, lab: Lab) -> None:
        """Install kopf from PyPI, if it is not there yet."""
        del lab
        folder = _environment()
        with builds.locked(folder):
            if folder.exists():
                return
            work = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(work, ignore_errors=True)
            commands.say(f"installing kopf once into {folder}")
            commands.run([sys.executable, "-m", "venv", work], timeout=300)
            install = (work / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes")
            commands.run([*install, "-r", _PINS.with_suffix(".lock")], timeout=600)
            work.rename(folder)

    def versions(self) -> dict[str, str]:
        """Return the version of kopf."""
        pins = dict(line.split("==") for line in _PINS.read_text(encoding="utf-8").splitlines() if "==" in line)
        return {"kopf": pins["kopf"]}

    def command(self, lab: Lab) -> Sequence[str | Path]:
        """Return kopf's command line."""
        del lab
        program = _PROGRAMS / "operator.py"
        return (_environment() / "bin" / "python", "-m", "kopf", "run", "--standalone", "--all-namespaces", program)

    def environment(self, lab: Lab) -> Mapping[str, str]:
        """Return where it is to serve."""
        port, folder = str(lab.port(self.program)), str(lab.certificates())
        return {"KUBECONFIG": str(lab.where.kubeconfig), "PEER_PORT": port, "PEER_CERTIFICATES": folder}

    def size(self, lab: Lab) -> int:
        """Return the bytes of its packages; an interpreter is beside them."""
        del lab
        found = [str(path) for path in (_environment() / "lib").glob("python3.*/site-packages")]
        return packages.size(packages.names(_PINS.read_text(encoding="utf-8")), found)


def _environment() -> Path:
    digest = hashlib.sha256(_PINS.read_bytes() + sys.version.encode())
    return places.cache() / f"kopf-{digest.hexdigest()[:12]}"


KOPF = Kopf(
    name="kopf",
    title="kopf",
    program="kopf",
    note="It replaces the whole list of replicated jobs, as a patch of kopf is a merge patch, and logs each admission.",
)
