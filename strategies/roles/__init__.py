"""Roles: trainers and samplers on their own nodes, each pod asking its host for what was planned for it.

`additions` writes placement on a JobSet when it is created; `checks` says what contradicts it, for which it looks at
the nodes that there are. Which role a replicated job has is read in `strategies.jobs.assignments`.
"""

from __future__ import annotations

from strategies.checks.roles import Nodes, check_roles
from strategies.roles.additions import enforce

__all__ = ["Nodes", "check_roles", "enforce"]
