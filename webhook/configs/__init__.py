"""The configuration file: one YAML document, read into an immutable model that gives the `Policy` of decisions.

`config_file` reads the file and models the whole. `profile_settings` and `role_settings` model the sections `profiles:`
and `roles:`, and `sections` all others.
"""

from __future__ import annotations

from muster.webhook.configs.config_file import Config, ConfigError, Framework, load, parse
from muster.webhook.configs.profile_settings import ProfileSettings
from muster.webhook.configs.role_settings import RoleSettings
from muster.webhook.configs.sections import (
    Audit,
    AuditFile,
    ClusterSettings,
    ControllerSettings,
    GuardSettings,
    LeaseSettings,
    ReportLimits,
    SecretSettings,
    Server,
    Tls,
    TrainingSettings,
)

__all__ = [
    "Audit",
    "AuditFile",
    "ClusterSettings",
    "Config",
    "ConfigError",
    "ControllerSettings",
    "Framework",
    "GuardSettings",
    "LeaseSettings",
    "ProfileSettings",
    "ReportLimits",
    "RoleSettings",
    "SecretSettings",
    "Server",
    "Tls",
    "TrainingSettings",
    "load",
    "parse",
]
