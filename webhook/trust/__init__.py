"""How replicas come to serve certificates that the API server trusts, without anybody's help.

The authorities lie in a Secret that all replicas read and any of them may write; each replica signs a leaf of its own
in memory. The leader makes new authorities and writes them into `caBundle` of the webhook configurations. What must
hold for no admission to fail is in `certs.rings`: a replica signs with an authority only once the bundles have it.
"""

from __future__ import annotations

__all__: list[str] = []
