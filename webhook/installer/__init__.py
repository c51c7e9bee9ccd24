"""Installing Muster on a cluster: manifests rendered, certificates made, everything applied in the order that is safe.

The order is the point. A webhook that fails closed and cannot be reached blocks every job of the cluster, so the
webhook configurations come last at installation and go first at removal. `muster install`, the clusters of the suites
and the kind script all run the same steps.
"""

from __future__ import annotations

from webhook.installer.errors import InstallError
from webhook.installer.kubectl import Kubectl
from webhook.installer.steps import Installation, Say, install, uninstall, upgrade

__all__ = ["InstallError", "Installation", "Kubectl", "Say", "install", "uninstall", "upgrade"]
