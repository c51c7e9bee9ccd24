"""The configuration file: one YAML document, read into an immutable model that gives the `Policy` of decisions.

`files` reads the file, `documents` models the whole, `sections` the settings of the service; `profiles`, `roles`,
`controllers` and `trust` model the sections of these names.
"""

from __future__ import annotations

from muster.webhook.configs.controllers import ControllerSettings, LeaseSettings, TrainingSettings
from muster.webhook.configs.documents import Config
from muster.webhook.configs.files import ConfigError, load, parse
from muster.webhook.configs.profiles import ProfileSettings
from muster.webhook.configs.roles import RoleSettings
from muster.webhook.configs.sections import (
    Audit,
    AuditFile,
    ClusterSettings,
    Framework,
    ReportLimits,
    Server,
    Tls,
)
from muster.webhook.configs.trust import SecretSettings

__all__ = [
    "Audit",
    "AuditFile",
    "ClusterSettings",
    "Config",
    "ConfigError",
    "ControllerSettings",
    "Framework",
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
