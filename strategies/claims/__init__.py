"""Claims: the devices that a job asks for by name, and what Muster adds to its JobSet so that its pods get them.

`requests` reads what was asked for and by whom, `plans` derives the claims from that and from the supply, and
`additions` writes a plan to the JobSet. `muster.strategies.checks.claim_checks` finds what is wrong with a request.
Each pass makes the plan again from the document, and a document that already holds the plan is not changed.
"""

from __future__ import annotations

from muster.strategies.claims.plans import enforce

__all__ = ["enforce"]
