"""The shape of a peer, and of those peers that are a process whose webhook configuration we write."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.peers import changes, servers
from bench.peers.labs import Lab
from e2e.cluster import builds, processes

__all__ = ["CONFIGURATION", "Peer", "Served", "configuration"]

CONFIGURATION = "peer"
"""The name of the webhook configurations that we write. Its place in the alphabet is behind JobSet's, as Muster's is,
so that every peer gets the JobSet with JobSet's defaults in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The shape of all peers; by itself it does nothing at all, which is the first of them.

    Attributes:
        name: for the command line and the CSV.
        title: for people.
        note: what is different from the others, in a sentence; empty if nothing is.
        lacks: parts of the change (`changes.PARTS`) that it cannot express.
        claims: whether the JobSet asks for a claim, and gets it.
        judges: whether it refuses a JobSet with too many pods (`changes.MOST`), which is then checked.
    """

    name: str
    title: str
    note: str = ""
    lacks: tuple[str, ...] = ("claim",)
    claims: bool = False
    judges: bool = False

    def modules(self) -> tuple[builds.Module, ...]:
        """Return the Go modules that it is built from."""
        return ()

    def versions(self) -> dict[str, str]:
        """Return versions of what it is made of, by name."""
        return {}

    def prepare(self, lab: Lab) -> None:
        """Install what stays for all rounds."""

    def start(self, lab: Lab) -> None:
        """Start its process."""

    def ready(self, lab: Lab) -> bool:
        """Whether it would answer reviews now."""
        del lab
        return True

    def register(self, lab: Lab) -> None:
        """Have JobSets sent to it."""

    def unregister(self, lab: Lab) -> None:
        """Have no more JobSets sent to it."""

    def stop(self, lab: Lab) -> None:
        """End its process."""

    def component(self) -> str:
        """Return under which name its process runs; empty if it has none."""
        return ""

    def size(self, lab: Lab) -> int:
        """Return the bytes of its program with all that it needs beside an operating system; 0 if it has none."""
        del lab
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Served(Peer):
    """A process whose webhook configurations we write.

    Attributes:
        program: its binary among those of the lab.
        mutates: the path of its mutating webhook.
        validates: the path of its validating webhook; empty to register none.
    """

    program: str
    mutates: str = "/mutate"
    validates: str = ""

    def command(self, lab: Lab) -> Sequence[str | Path]:
        """Return its command line."""
        raise NotImplementedError  # each program has its own

    def environment(self, lab: Lab) -> Mapping[str, str]:
        """Return further variables of its environment."""
        return {"KUBECONFIG": str(lab.where.kubeconfig)}

    def start(self, lab: Lab) -> None:
        """Start its process."""
        processes.start(lab.where, self.name, self.command(lab), self.environment(lab))

    def ready(self, lab: Lab) -> bool:
        """Whether a review that is sent to it is answered with a patch."""
        try:
            answer = self.server(lab).post(self.mutates, changes.review(changes.job(claims=self.claims)))
        except (OSError, ValueError):
            return False
        return "patch" in answer.get("response", {})

    def server(self, lab: Lab) -> servers.Server:
        """Return it as a server of HTTPS."""
        return servers.Server(f"https://127.0.0.1:{lab.port(self.program)}", lab.certificates() / "ca.crt")

    def register(self, lab: Lab) -> None:
        """Have JobSets sent to it."""
        lab.apply(*self._configurations(lab))

    def unregister(self, lab: Lab) -> None:
        """Have no more JobSets sent to it."""
        lab.delete(*self._configurations(lab))

    def stop(self, lab: Lab) -> None:
        """End its process by its id."""
        processes.end(lab.where, self.name)

    def component(self) -> str:
        """Return its own name."""
        return self.name

    def size(self, lab: Lab) -> int:
        """Return the bytes of its binary."""
        return (lab.binaries / self.program).resolve().stat().st_size

    def _configurations(self, lab: Lab) -> list[dict[str, Any]]:
        paths = {"Mutating": self.mutates, "Validating": self.validates}
        url, trust = self.server(lab).url, (lab.certificates() / "ca.crt").read_bytes()
        return [configuration(phase, url + path, trust) for phase, path in paths.items() if path]


def configuration(phase: str, url: str, authority: bytes) -> dict[str, Any]:
    """Return the webhook configuration that sends creations of JobSets to a URL.

    Args:
        phase: `Mutating` or `Validating`.
        url: with its path.
        authority: the CA of the server, as PEM.
    """
    rule = {
        "operations": ["CREATE"],
        "apiGroups": ["jobset.x-k8s.io"],
        "apiVersions": ["v1alpha2"],
        "resources": ["jobsets"],
        "scope": "Namespaced",
    }
    webhook = {
        "name": f"{phase.lower()}.peer.muster.dev",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority).decode()},
        "rules": [rule],
        "failurePolicy": "Fail",
        "timeoutSeconds": 10,
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{phase}WebhookConfiguration",
        "metadata": {"name": CONFIGURATION},
        "webhooks": [webhook],
    }
