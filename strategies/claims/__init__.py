"""Claims: the devices that a job asks for by name, and what has to stand on its JobSet so that its pods get them.

`requests` says what was asked for and by whom, `plans` says what follows from it and from the supply, and `additions`
writes a plan down. What is wrong with a request is found in `strategies.checks.claims`. A plan is made anew from the
document each time, and asks for nothing more of a document that holds it already.
"""

from __future__ import annotations

from strategies.claims.additions import enforce

__all__ = ["enforce"]
