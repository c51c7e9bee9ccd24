"""Roles: trainers and samplers run on their own nodes, and each pod requests the host memory that was planned for it.

`role_additions` writes placement to a JobSet when it is created. `muster.strategies.checks.role_checks` finds what
contradicts a role; `muster.strategies.jobs.assignments` reads which role a replicated job has.
"""

from __future__ import annotations

from muster.strategies.roles.role_additions import enforce

__all__ = ["enforce"]
