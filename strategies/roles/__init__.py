"""Roles: trainers and samplers on their own nodes, and each pod asks its host for the memory that was planned for it.

`additions` writes placement on a JobSet when it is created. What contradicts a role is found in
`strategies.checks.roles`; which role a replicated job has is read in `strategies.jobs.assignments`.
"""

from __future__ import annotations

from strategies.roles.additions import enforce

__all__ = ["enforce"]
