"""Roles: trainers and samplers run on their own nodes, and each pod requests the host memory that was planned for it.

`additions` writes placement to a JobSet when it is created. `strategies.checks.roles` finds what contradicts a role;
`strategies.jobs.assignments` reads which role a replicated job has.
"""

from __future__ import annotations

from strategies.roles.additions import enforce

__all__ = ["enforce"]
