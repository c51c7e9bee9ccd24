"""Installing Muster on a cluster: manifests rendered, certificates made, everything applied in the order that is safe.

The order is the point. A webhook that fails closed and cannot be reached blocks every job of the cluster, so the
webhook configurations come last at installation and go first at removal. The suites, the kind script and people run
the same `python -m e2e.installs`; a tier without pods takes `documents` and `certificate` and goes on by itself.
"""

from __future__ import annotations

from e2e.installs.credentials import certificate
from e2e.installs.errors import InstallError
from e2e.installs.renders import documents

__all__ = ["InstallError", "certificate", "documents"]
