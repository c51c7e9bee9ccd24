"""The configuration file: one YAML document, read as one model that knows every key, and the policy that follows.

A running service can take over changes of the policy (modes, rendezvous, failure mode). All other changes need a
restart; `restart_needed` lists them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic

from muster.strategies.documents.runtimes import VERSIONS
from muster.strategies.jobs.jobs import Settings
from muster.strategies.launches.guard_additions import Guard
from muster.strategies.plugins.registry import Registry
from muster.webhook import kubeyaml
from muster.webhook.admission.budgets import Budget
from muster.webhook.admission.policies import FrameworkPolicy, Mode, Policy
from muster.webhook.configs import sections, wording
from muster.webhook.configs.profile_settings import ProfileName, ProfileSettings
from muster.webhook.configs.role_settings import RoleName, RoleSettings

__all__ = ["AT_START", "Config", "ConfigError", "Framework", "load", "parse"]


AT_START = ("server", "tls", "cluster", "checks", "audit", "controllers", "trainings")
"""Keys whose changes take effect at the next start."""


def _spoken(value: object) -> object:
    return "off" if value is False else value


SpokenMode = Annotated[Mode, pydantic.BeforeValidator(_spoken)]
"""A mode; YAML 1.1 reads the unquoted word off as false, which counts as `off`."""


class Framework(sections.Model):
    """Settings of one framework.

    Attributes:
        mode: mode of its jobs; the one of the file without it.
        rendezvous: how the ranks meet unless the job says otherwise; see docs/jobs.md.
        profile: claim profile of jobs that ask for none.
    """

    mode: SpokenMode | None = None
    rendezvous: Literal["static", "c10d"] = "static"
    profile: ProfileName | None = None


class Config(sections.Model):
    """The whole file.

    Attributes:
        api_version: the version of the file.
        kind: the kind of the file.
        mode: how far Muster goes, unless a nearer setting says otherwise.
        frameworks: settings by the runtime's label `trainer.kubeflow.org/framework`.
        on_failure: the answer to a CREATE when a strategy fails or the cluster does not answer.
        plugin_budget: seconds that an out-of-tree strategy may take for one method.
        profiles: claims on devices that jobs ask for by name; see docs/sharing.md.
        roles: which Kubernetes nodes trainers and samplers run on; see docs/sharing.md.
        budget: the limits of one document; a job beyond them is refused (`core/budget`) and not read.
        server: the listener.
        tls: the certificate; see docs/operate.md.
        cluster: where Muster reads the objects that govern a job.
        checks: what the API server is asked; see docs/install.md.
        audit: where records of decisions go; see docs/audit.md.
        controllers: who writes claims and seats; see docs/sharing.md.
        trainings: who keeps what the guard reports; see docs/guard.md.
        guard: which trainings are measured while they run; see docs/guard.md.
    """

    api_version: Literal["muster.dev/v1alpha1"] = "muster.dev/v1alpha1"
    kind: Literal["MusterConfig"] = "MusterConfig"
    mode: SpokenMode = Mode.ENFORCE
    frameworks: dict[str, Framework] = pydantic.Field(default_factory=dict)
    on_failure: Literal["deny", "allow"] = "deny"
    plugin_budget: Annotated[float, pydantic.Field(gt=0, le=10)] = 1.0
    profiles: dict[ProfileName, ProfileSettings] = pydantic.Field(default_factory=dict)
    roles: dict[RoleName, RoleSettings] = pydantic.Field(default_factory=dict)
    budget: sections.Budget = sections.Budget()
    server: sections.Server = sections.Server()
    tls: sections.Tls = sections.Tls()
    cluster: sections.ClusterSettings = sections.ClusterSettings()
    checks: sections.Checks = sections.Checks()
    audit: sections.Audit = sections.Audit()
    controllers: sections.ControllerSettings = sections.ControllerSettings()
    trainings: sections.TrainingSettings = sections.TrainingSettings()
    guard: sections.GuardSettings = sections.GuardSettings()

    @pydantic.model_validator(mode="after")
    def _offers_every_profile(self) -> Config:
        """Check that every profile that frameworks and roles name exists; the error names all that do not."""
        asked = {f"frameworks.{name}.profile": each.profile for name, each in self.frameworks.items()}
        asked |= {f"roles.{name}.profile": each.profile for name, each in self.roles.items()}
        missing = [f"{key}: {name!r}" for key, name in asked.items() if name is not None and name not in self.profiles]
        if missing:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise ValueError(f"{'; '.join(missing)}: there is no profile of this name; profiles has {known}")
        return self

    def policy(self, registry: Registry) -> Policy:
        """Return the policy for decisions."""
        return Policy(
            registry=registry,
            mode=self.mode,
            frameworks={
                name: FrameworkPolicy(each.mode, Settings(rendezvous=each.rendezvous, profile=each.profile))
                for name, each in self.frameworks.items()
            },
            on_plugin_failure=self.on_failure,
            plugin_budget=self.plugin_budget,
            profiles={name: each.profile(name) for name, each in self.profiles.items()},
            roles={name: each.role(name) for name, each in self.roles.items()},
            budget=Budget(**self.budget.model_dump()),
            trainer=VERSIONS[self.cluster.trainer] if self.cluster.trainer else None,
            guard=Guard(**self.guard.model_dump()),
        )

    def restart_needed(self, other: Config) -> list[str]:
        """Return the keys in which the other configuration differs and which need a restart."""
        return [key for key in AT_START if getattr(self, key) != getattr(other, key)]


_MAX_BYTES = 1024 * 1024
_CALLED = {list: "a list", str: "a text", bool: "true or false"}


class ConfigError(ValueError):
    """The file cannot be used; the message names file, key path, value and the expected value."""


def load(path: Path | None) -> Config:
    """Read a file; None is the default configuration.

    Raises:
        ConfigError: it is unreadable or not YAML, or has unknown keys or wrong values; each is named with its path.
    """
    if path is None:
        return Config()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(text) > _MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {_MAX_BYTES} bytes; a configuration file must be smaller")
    return parse(text, str(path))


def parse(text: bytes, source: str) -> Config:
    """Read the text of a file called `source`; an empty one is the default configuration.

    Raises:
        ConfigError: as `load`.
    """
    try:
        document = kubeyaml.load(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except kubeyaml.YamlError as error:
        raise ConfigError(f"{source}: line {error.line}: {error}") from error
    if document is None:
        return Config()
    if not isinstance(document, dict):
        raise ConfigError(
            f"{source}: is {_CALLED.get(type(document), 'a number')}; write an object with keys such as mode"
        )
    try:
        return Config.model_validate(document)
    except pydantic.ValidationError as error:
        raise ConfigError("\n".join(wording.explained(source, Config, each) for each in error.errors())) from error
