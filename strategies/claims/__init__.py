"""Claims: the devices that a job asks for by name, and what has to stand on its JobSet so that its pods get them.

`requests` says what was asked for and by whom, `plans` what follows from it and from the supply; `additions` writes a
plan down and `checks` says what is wrong with it. A plan is made anew from the document each time, and of a document
that holds it already it asks for nothing more.

A strategy of another distribution calls `enforce` in its `enforce_claims`; the checks are made for every framework.
"""

from __future__ import annotations

from strategies.claims.additions import enforce

__all__ = ["enforce"]
