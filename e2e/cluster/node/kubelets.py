"""The kubelet of the real node: it registers the node, and keeps the pods that are bound to it running."""

from __future__ import annotations

import json
from pathlib import Path

from e2e.cluster import commands, processes
from e2e.cluster.node import containerd
from e2e.cluster.node.sandboxes import HOSTNAME, Sandbox, identity
from e2e.cluster.places import Places
from e2e.cluster.sites import Site

__all__ = ["GPU", "advertise", "start"]

GPU = "nvidia.com/gpu"

_GPUS = 8


def start(sandbox: Sandbox, site: Site, binaries: Path) -> None:
    """Start the kubelet; the node has the host name of the sandbox."""
    config = sandbox.places.configs / "kubelet.yaml"
    config.write_text(json.dumps(_config(sandbox, site), indent=1))
    sandbox.own("/var/lib/kubelet")
    command = [
        *sandbox.prefix(),
        f"{binaries}/kubelet",
        f"--kubeconfig={sandbox.places.kubeconfig}",
        f"--config={config}",
        f"--hostname-override={HOSTNAME}",
        f"--node-ip={sandbox.address}",
        "--node-labels=e2e.muster.dev/node=real",
    ]
    processes.start(sandbox.places, "kubelet", command)


def advertise(places: Places, kubectl: Path) -> None:
    """Let the node offer GPUs that it does not have, so that pods that ask for GPUs run and can be inspected.

    Raises:
        ClusterError: the node has not registered itself within a minute.
    """
    status = json.dumps({"status": {"capacity": {GPU: str(_GPUS)}}})
    node = [str(kubectl), "--kubeconfig", str(places.kubeconfig)]
    commands.run([*node, "wait", "--for=create", f"node/{HOSTNAME}", "--timeout=60s"])
    commands.run([*node, "patch", "node", HOSTNAME, "--subresource=status", "--type=merge", "--patch", status])


def _config(sandbox: Sandbox, site: Site) -> dict[str, object]:
    low = {"memory.available": "50Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%"}
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": sandbox.address,
        "port": site.ports.kubelet,
        "healthzBindAddress": sandbox.address,
        "healthzPort": site.ports.kubelet_health,
        "containerRuntimeEndpoint": f"unix://{containerd.SOCKET}",
        # Only the host can reach the sandbox, and its root owns this cluster anyway.
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{identity(sandbox.places)}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "localStorageCapacityIsolation": False,
        "enforceNodeAllocatable": [],
        "evictionHard": low,
        "imageGCHighThresholdPercent": 100,
        "clusterDNS": [sandbox.dns_address],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "containerLogMaxSize": "200Mi",  # tests count in what `kubectl logs` shows, which is the newest file alone
        "podLogsDir": str(sandbox.places.state / "logs" / "pods"),
        "maxPods": 200,
        "registerNode": True,
        "syncFrequency": "10s",
        "nodeStatusUpdateFrequency": "5s",
        "serializeImagePulls": False,
        "shutdownGracePeriod": "0s",
        "kubeAPIQPS": 300,
        "kubeAPIBurst": 600,
    }
