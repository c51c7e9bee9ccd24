"""The container runtime of the real node: containerd with its CRI plugin, runc, and a bridge for the pods.

Inside the sandbox it has its usual places (`/var/lib/containerd`, `/run/containerd`), which keeps socket paths short
whatever the state folder is called; the first is a folder of the state, the second vanishes with the sandbox.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from e2e.cluster import processes
from e2e.cluster.errors import ClusterError
from e2e.cluster.node.sandboxes import Sandbox

__all__ = ["SOCKET", "client", "importing", "start", "wait"]

SOCKET = "/run/containerd/containerd.sock"

_COMPONENT = "containerd"
_PATIENCE = 30.0
# What is off would write to folders of the machine, or costs time that a cluster of tests does not need to spend.
_CONFIG = """\
version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri",
  "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs"]
imports = []

[plugins."io.containerd.metadata.v1.bolt"]
no_sync = true

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"
pinned_images = {{ sandbox = "{pause}" }}

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
disable_apparmor = true

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
options = {{ SystemdCgroup = false }}

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{binaries}"]
conf_dir = "{networks}"
"""


def start(sandbox: Sandbox, binaries: Path, pause: str) -> None:
    """Start containerd; `pause` is the name of the image that holds a pod's namespaces."""
    networks = sandbox.places.configs / "cni"
    networks.mkdir(exist_ok=True)
    (networks / "10-pods.conflist").write_text(json.dumps(_network(sandbox), indent=1))
    config = sandbox.places.configs / "containerd.toml"
    config.write_text(_CONFIG.format(pause=pause, binaries=binaries, networks=networks))
    sandbox.own("/var/lib/containerd")
    # The shim is looked for on the path, beside containerd.
    environment = {"PATH": f"{binaries}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
    command = [*sandbox.prefix(), f"{binaries}/containerd", f"--config={config}"]
    processes.start(sandbox.places, _COMPONENT, command, environment)


def wait(sandbox: Sandbox, binaries: Path) -> None:
    """Wait until containerd answers.

    Raises:
        ClusterError: it does not answer within 30 seconds; the message names the log.
    """
    deadline = time.monotonic() + _PATIENCE
    while not _answers(sandbox, binaries):
        if time.monotonic() > deadline:
            raise ClusterError(f"containerd does not answer; see {sandbox.places.log(_COMPONENT)}")
        time.sleep(0.1)


def client(binaries: Path) -> list[str]:
    """The command line of containerd's client, inside the sandbox, for what the kubelet sees."""
    return [f"{binaries}/ctr", "--address", SOCKET, "--connect-timeout", "2s", "--namespace", "k8s.io"]


def importing(sandbox: Sandbox, binaries: Path, archive: Path) -> list[str]:
    """The command that imports an archive of images where the kubelet looks for them."""
    return [*sandbox.prefix(), *client(binaries), "images", "import", "--local", str(archive)]


def _answers(sandbox: Sandbox, binaries: Path) -> bool:
    try:
        sandbox.run(*client(binaries), "version")
    except ClusterError:
        return False
    return True


def _network(sandbox: Sandbox) -> dict[str, object]:
    addresses = {
        "type": "host-local",
        "ranges": [[{"subnet": sandbox.pod_cidr}]],
        "routes": [{"dst": "0.0.0.0/0"}],
        "dataDir": "/run/cni",
    }
    bridge = {"type": "bridge", "bridge": "pods", "isGateway": True, "hairpinMode": True, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "backend": "nftables"}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, ports]}
