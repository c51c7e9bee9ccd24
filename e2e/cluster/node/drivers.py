"""The DRA driver of the real node: a real kubelet plugin whose GPUs are fake.

A container that gets one of them finds the env `GPU_DEVICE_<number>`, by CDI, as a container with a real device finds
its device files. The driver publishes the devices in ResourceSlices of the node, as its DaemonSet would.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from e2e.cluster import commands, processes, upstream
from e2e.cluster.errors import ClusterError
from e2e.cluster.node.sandboxes import HOSTNAME, Sandbox
from e2e.cluster.places import Places

__all__ = ["DEVICES", "DRIVER", "device_class", "start", "wait"]

DRIVER = "gpu.example.com"
"""Name of the driver, and of its DeviceClass."""
DEVICES = 8
"""GPUs of the node."""

_COMPONENT = "dra-driver"
_PATIENCE = 60.0
_CONTAINERS = "/var/run/cdi"  # one of the folders where containerd looks for CDI specifications


def start(sandbox: Sandbox, binaries: Path) -> None:
    """Start the driver; the node is registered, its kubelet listens for plugins."""
    kubectl, kubeconfig = binaries / "kubectl", sandbox.places.kubeconfig
    upstream.apply(kubectl, [device_class()], kubeconfig)
    command = [
        *sandbox.prefix(),
        f"{binaries}/dra-example-kubeletplugin",
        f"--kubeconfig={kubeconfig}",
        f"--node-name={HOSTNAME}",
        f"--num-devices={DEVICES}",
        f"--cdi-root={_CONTAINERS}",
    ]
    # From this the driver makes the devices' uuids.
    processes.start(sandbox.places, _COMPONENT, command, {"NODE_NAME": HOSTNAME})


def wait(places: Places, kubectl: Path) -> None:
    """Wait until the driver has published all of its devices.

    Raises:
        ClusterError: it does not do so within a minute; the message names the log.
    """
    deadline = time.monotonic() + _PATIENCE
    command: list[str | Path] = [kubectl, "--kubeconfig", places.kubeconfig, "get", "resourceslices", "--output=json"]
    command += [f"--field-selector=spec.driver={DRIVER},spec.nodeName={HOSTNAME}"]
    while True:
        slices = json.loads(commands.run(command, timeout=30))["items"]
        if sum(len(each["spec"]["devices"]) for each in slices) == DEVICES:
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"the DRA driver has not published {DEVICES} devices; see {places.log(_COMPONENT)}")
        time.sleep(0.2)


def device_class() -> upstream.Document:
    """The DeviceClass that the driver's chart installs: all of its devices."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": DRIVER},
        "spec": {"selectors": [selector]},
    }
