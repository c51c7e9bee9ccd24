"""Services and names of the node tier: kube-proxy, which makes ClusterIPs work, and CoreDNS, which resolves names."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.cluster import processes
from e2e.cluster.node.sandboxes import HOSTNAME, Sandbox

__all__ = ["start"]

# Answers are never cached: a coordinator that asks for its name before its pod exists must find it a moment later.
# The sandbox has no way out, so that a name which is not the cluster's does not exist.
_COREFILE = """\
cluster.local:53 in-addr.arpa:53 {{
    bind {address}
    errors
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig}
        ttl 0
    }}
}}
.:53 {{
    bind {address}
    errors
    template ANY ANY {{
        rcode NXDOMAIN
    }}
}}
"""


def start(sandbox: Sandbox, binaries: Path) -> None:
    """Start both."""
    proxy = sandbox.places.configs / "kube-proxy.yaml"
    proxy.write_text(json.dumps(_proxy(sandbox), indent=1))
    command = [*sandbox.prefix(), f"{binaries}/kube-proxy", f"--config={proxy}", f"--hostname-override={HOSTNAME}"]
    processes.start(sandbox.places, "kube-proxy", command)
    names = sandbox.places.configs / "Corefile"
    names.write_text(_COREFILE.format(address=sandbox.dns_address, kubeconfig=sandbox.places.kubeconfig))
    processes.start(sandbox.places, "coredns", [*sandbox.prefix(), f"{binaries}/coredns", "-conf", str(names)])


def _proxy(sandbox: Sandbox) -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(sandbox.places.kubeconfig)},
        "clusterCIDR": sandbox.pod_cidr,
        "bindAddress": sandbox.address,
        "healthzBindAddress": f"{sandbox.address}:10256",
        "metricsBindAddress": f"{sandbox.address}:10249",
        # A pod that calls a Service whose pod is on the same bridge must get its answer through the node.
        "nftables": {"masqueradeAll": True, "minSyncPeriod": "0s", "syncPeriod": "30s"},
        # Limits of connection tracking belong to the machine: leave them.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
