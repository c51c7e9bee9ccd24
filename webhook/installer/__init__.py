"""Installs Muster on a cluster: renders manifests, makes certificates, applies everything in a safe order.

A webhook that fails closed and cannot be reached blocks every job of the cluster. So the webhook configurations are
applied last and deleted first. `muster install`, the clusters of the suites and the kind script all run these steps.
"""

from __future__ import annotations

from muster.webhook.installer.installation_steps import Installation, Say, install, uninstall, upgrade
from muster.webhook.installer.kubectl_apply import InstallError, Kubectl

__all__ = ["InstallError", "Installation", "Kubectl", "Say", "install", "uninstall", "upgrade"]
