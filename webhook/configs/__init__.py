"""The configuration file: one YAML document that becomes an immutable model, and the model the `Policy` of decisions.

`files` reads it, `documents` is all of it, `sections` says how the service runs; `profiles`, `roles`, `controllers`
and `trust` are the parts that are known by those names elsewhere too.
"""

from __future__ import annotations

from webhook.configs.controllers import ControllerSettings, LeaseSettings
from webhook.configs.documents import Config
from webhook.configs.files import ConfigError, load, parse
from webhook.configs.profiles import ProfileSettings
from webhook.configs.roles import RoleSettings
from webhook.configs.sections import (
    Audit,
    AuditFile,
    ClusterSettings,
    Framework,
    ReportLimits,
    Server,
    Tls,
)
from webhook.configs.trust import SecretSettings

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
    "load",
    "parse",
]
