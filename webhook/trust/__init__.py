"""How replicas get certificates that the API server trusts, without manual steps.

The authorities are stored in a Secret that all replicas read and any of them may write; each replica signs its own
leaf in memory. The leader makes new authorities and writes them into `caBundle` of the webhook configurations. The
rule that keeps admissions from failing is in `muster.certs.rings`: a replica signs with an authority only once the
bundles contain it.
"""

from __future__ import annotations

__all__: list[str] = []
