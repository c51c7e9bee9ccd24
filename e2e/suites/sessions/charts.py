"""A Gateway as helm installs it with Muster: two replicas that share a journal in PostgreSQL.

The client reaches them at a port of the node, by which each of its connections comes to either of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from e2e.suites.claims import jobs
from e2e.suites.sessions import databases, trainings
from e2e.suites.sessions.databases import Database
from e2e.suites.sessions.gateways import PROFILE, Gateway, is_ready
from e2e.suites.sessions.grounds import BASE, CLAIM, IMAGES, PATIENCE, SECRET
from e2e.suites.sessions.trainings import Training
from e2e.suites.support import waits
from e2e.suites.support.helms import Helm
from e2e.suites.support.kubectls import Kubectl

__all__ = ["Release", "address"]

_LABELS = "app.kubernetes.io/name=muster-gateway"
_EXECUTES = "SELECT split_part(holder, ':', 1) FROM leases WHERE until > extract(epoch FROM now())"


@dataclass(frozen=True, slots=True)
class Release:
    """The release of the chart.

    Attributes:
        helm: that installs it.
        gateway: of it, which is not installed in another way.
        database: that has its journal.
        profile: the claim profile of the engines.
    """

    helm: Helm
    gateway: Gateway
    database: Database
    profile: dict[str, Any]

    def install(self) -> None:
        """Install Muster with the Gateway, and wait until all replicas are ready."""
        self.helm.install(self._values(enabled=True))

    def without_gateway(self) -> None:
        """Upgrade to values in which the Gateway is switched off."""
        self.helm.upgrade(self._values(enabled=False))

    def with_gateway(self) -> None:
        """Upgrade to values in which it is switched on, and wait until all replicas are ready."""
        self.helm.upgrade(self._values(enabled=True))

    def pods(self) -> dict[str, dict[str, Any]]:
        """Return the pods that are ready, by name."""
        found = {each["metadata"]["name"]: each for each in self.gateway.space.pods(_LABELS)}
        return {
            name: each for name, each in found.items() if is_ready(each) and "deletionTimestamp" not in each["metadata"]
        }

    def wait(self) -> dict[str, dict[str, Any]]:
        """Wait until both replicas are ready, and return them."""

        def both() -> dict[str, dict[str, Any]]:
            found = self.pods()
            return found if len(found) == 2 else {}

        return waits.until("both replicas to be ready", both, PATIENCE)

    def executing(self) -> str:
        """Wait until one of the replicas executes, and return the name of its pod."""

        def one() -> str:
            (found,) = self.database.ask(_EXECUTES)
            return found

        return waits.until("a replica to execute", one, 60)

    def log(self, name: str) -> str:
        """Return what a pod has logged."""
        return self.gateway.kubectl.run("logs", name, "--namespace", self.gateway.space.name).expect().out

    @contextmanager
    def without_new_pods(self) -> Iterator[None]:
        """Have no new pod on the node for as long."""
        (node,) = {each["spec"]["nodeName"] for each in self.pods().values()}
        self.gateway.kubectl.run("cordon", node).expect()
        try:
            yield
        finally:
            self.gateway.kubectl.run("uncordon", node).expect()

    def lose(self, name: str) -> None:
        """Kill a replica (SIGKILL) with its pod; it was stopped before, and does nothing more, as if its node died."""
        ground = self.gateway.ground
        ground.kill(self.pods()[name], "SIGSTOP")
        ground.space.delete("pod", name, grace=1).expect()

    @contextmanager
    def training(self) -> Iterator[Training]:
        """Train from outside the cluster, with a new key; what still runs at the end is stopped."""
        gateway = self.gateway
        with trainings.through(self._url, gateway.key(), gateway.ground, gateway.name) as training:
            yield training

    @property
    def _url(self) -> str:
        found = self.gateway.space.get("services", self.gateway.name)
        assert found is not None, "there is no Service"
        (port,) = found["spec"]["ports"]
        (address,) = self.gateway.ground.names
        return f"https://{address}:{port['nodePort']}"

    def _values(self, *, enabled: bool) -> dict[str, Any]:
        gateway = self.gateway
        made = {
            "enabled": enabled,
            "name": gateway.name,
            "namespace": gateway.space.name,
            "image": _image("gateway"),
            "replicas": 2,
            "model": {"name": str(gateway.ground.base), "folder": BASE},
            "storage": {"claimName": CLAIM, "folder": gateway.state},
            "database": {"secretName": databases.SECRET},
            "tls": {"secretName": SECRET},
            "engines": {"namespace": gateway.engines.name, "image": _image("engine"), "profile": PROFILE},
            "service": {"type": "NodePort"},
        }
        quick = {key: value for key, value in jobs.CONTROLLERS.items() if key != "enabled"}
        config = {"profiles": {PROFILE: self.profile}, "controllers": quick}
        return {"config": config, "controllers": {"enabled": True}, "gateway": made}


def address(kubectl: Kubectl) -> str:
    """Return the address of the node, which this machine reaches."""
    (node,) = kubectl.all("nodes", selector="e2e.muster.dev/node=real")
    (found,) = (each["address"] for each in node["status"]["addresses"] if each["type"] == "InternalIP")
    return str(found)


def _image(name: str) -> dict[str, str]:
    repository, _, tag = IMAGES[name].rpartition(":")
    return {"registry": "", "repository": repository, "tag": tag}
