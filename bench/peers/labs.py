"""The cluster in which all peers are measured, and what they need of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

from bench.peers import changes, costs, loads, servers
from e2e.cluster import bringups, builds, commands, credentials, places, ports, processes, sites, upstream
from e2e.cluster.errors import ClusterError
from muster.certs import material_sources

__all__ = ["PINS", "Lab", "opened"]

PINS = Path(__file__).with_name("binaries")
"""The folder of the peers' go.mod files."""

_CREATE = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets?dryRun=All"
# 400 is what the API server makes of Kyverno's answers, which have no code.
_REFUSED = (HTTPStatus.FORBIDDEN, HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.BAD_REQUEST)
_MUSTER = {"mutatingwebhookconfiguration": "muster", "validatingwebhookconfiguration": "muster"}


@dataclass(frozen=True, slots=True)
class Lab:
    """A cluster with JobSet's controller, whose webhooks are in every row, and without a peer.

    Attributes:
        where: its folders.
        site: its addresses.
        binaries: of the cluster and of all peers.
        registered: Muster's own webhook configurations as they were, by their phase.
        held: ports of peers, by name.
    """

    where: places.Places
    site: sites.Site
    binaries: Path
    registered: dict[str, dict[str, Any]]
    held: dict[str, int] = field(default_factory=dict)

    @property
    def kubectl(self) -> Path:
        """The command."""
        return self.binaries / "kubectl"

    def port(self, name: str) -> int:
        """Return the port of this name, always the same."""
        if name not in self.held:
            self.held[name] = ports.choose(1)[0]
        return self.held[name]

    def certificates(self) -> Path:
        """Return the folder of ca.crt, tls.crt and tls.key that all peers with certificates of ours serve with."""
        folder = self.where.credentials / "peers"
        if not (folder / "tls.crt").exists():
            material_sources.SelfSignedSource(("127.0.0.1", "localhost"), directory=folder).current()
        return folder

    def api(self) -> servers.Server:
        """Return the API server, as its administrator."""
        token = credentials.tokens(self.where).read_text().partition(",")[0]
        return servers.Server(self.site.server, credentials.api_certificate(self.where), token)

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Apply documents server-side."""
        upstream.apply(self.kubectl, documents, self.where.kubeconfig)

    def delete(self, *documents: Mapping[str, Any]) -> None:
        """Delete documents, those that are there, and wait until they are gone."""
        text = "\n---\n".join(json.dumps(each) for each in documents)
        self.run(("delete", "--ignore-not-found", "--timeout=60s", "-f", "-"), text)

    def run(self, words: Sequence[str], stdin: str = "") -> str:
        """Run kubectl as the administrator."""
        return commands.run((self.kubectl, "--kubeconfig", self.where.kubeconfig, *words), stdin=stdin, timeout=120)

    def missing(self, *, claims: bool = False) -> list[str]:
        """Return which parts of the change a dry run lacks.

        Raises:
            ClusterError: the API server refuses the JobSet.
        """
        answer = self.api().post(_CREATE, changes.job(claims=claims))
        if answer.get("kind") != "JobSet":
            raise ClusterError(f"the API server does not take the JobSet: {answer.get('message', answer)}")
        return changes.missing(answer)

    def refused(self) -> bool:
        """Whether a JobSet with too many pods (`changes.MOST`) is refused by a rule, and not for want of an answer."""
        answer = self.api().post(_CREATE, changes.job(nodes=changes.MOST + 1))
        denied = answer.get("code") in _REFUSED and "denied" in str(answer.get("message"))
        return answer.get("kind") == "Status" and denied

    def load(self, count: int, workers: int, *, claims: bool) -> loads.Load:
        """Send dry runs, as many at a time as there are workers."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(changes.job(claims=claims), file)
            file.flush()
            words: list[str | Path] = [
                self.binaries / "load",
                f"--url={self.site.server}{_CREATE}",
                f"--ca={credentials.api_certificate(self.where)}",
                f"--token-file={credentials.tokens(self.where)}",
                f"--object={file.name}",
                f"--count={count}",
                f"--workers={workers}",
            ]
            return loads.parse(commands.run(words, timeout=300))

    def pids(self, name: str) -> list[int]:
        """Return the processes of a component."""
        return sorted(processes.running(self.where, name))

    def spent(self, name: str) -> float:
        """Return the processor seconds of a component; 0 if it does not run."""
        return costs.cpu(self.pids(name))


def opened(where: places.Places, modules: Iterable[builds.Module]) -> Lab:
    """Build what is missing, bring a cluster up, and take Muster off it.

    Raises:
        ClusterError: it cannot be built or started.
    """
    binaries = builds.binaries(bringups.MODULES["control-plane"], modules)
    bringups.up(where, "control-plane")
    lab = Lab(where, sites.load(where), binaries, {})
    for kind, name in _MUSTER.items():
        document = json.loads(lab.run(("get", kind, name, "-o", "json")))
        metadata = {"name": document["metadata"]["name"]}
        lab.registered[kind] = {**document, "metadata": metadata}
        lab.delete(lab.registered[kind])
    processes.end(where, "muster")
    servers.until("Muster still changes JobSets", lambda: lab.missing() == list(changes.PARTS))
    return lab
