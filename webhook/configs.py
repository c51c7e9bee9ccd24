"""The configuration file: one YAML document, every key known, every error named by its path.

The file becomes a pydantic model, and the model becomes the immutable `Policy` that decisions are made under. What a
running service can change (modes, rendezvous, failure mode) is exactly the policy; the rest needs a restart and
`restart_needed` says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import pydantic
from pydantic import alias_generators

from strategies.jobs import Settings
from strategies.registry import Registry
from webhook import controllersettings, profilesettings, rolesettings, trustsettings, yamls
from webhook.admission.policies import FrameworkPolicy, Mode, Policy

__all__ = ["Audit", "AuditFile", "Cluster", "Config", "ConfigError", "Framework", "Server", "Tls", "load", "parse"]

_MAX_BYTES = 1024 * 1024
_AT_START = ("server", "tls", "cluster", "audit", "controllers")  # keys that take effect at the next start


class ConfigError(ValueError):
    """The file cannot be used; the message names file, key path, value and what is wanted."""


class _Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, alias_generator=alias_generators.to_camel)


def _spoken(value: object) -> object:
    return "off" if value is False else value


SpokenMode = Annotated[Mode, pydantic.BeforeValidator(_spoken)]
"""A mode; YAML 1.1 reads the bare word off as false."""


class Framework(_Model):
    """Settings of one framework."""

    mode: SpokenMode | None = None
    rendezvous: Literal["static", "c10d"] = "static"
    profile: profilesettings.ProfileName | None = None


class Server(_Model):
    """The listener.

    Attributes:
        body_limit: bytes of one review; 7 MiB holds two objects of the largest size that etcd stores.
        request_timeout: seconds for one request, below the `timeoutSeconds` of the webhook configuration.
        in_flight_limit: admissions at the same time; more are answered 429 and the API server tries again or fails.
        shutdown_grace: seconds in which open requests may end.
        readiness_delay: seconds between failing readiness and closing the listener, for endpoints to be withdrawn.
    """

    host: str = "0.0.0.0"  # noqa: S104  # a pod is reached by its own address, which is not known before
    port: Annotated[int, pydantic.Field(ge=0, le=65535)] = 8443
    body_limit: Annotated[int, pydantic.Field(ge=64 * 1024, le=64 * 1024 * 1024)] = 7 * 1024 * 1024
    request_timeout: Annotated[float, pydantic.Field(gt=0, le=30)] = 4.0
    in_flight_limit: Annotated[int, pydantic.Field(ge=1)] = 200
    shutdown_grace: Annotated[float, pydantic.Field(ge=0, le=300)] = 10.0
    readiness_delay: Annotated[float, pydantic.Field(ge=0, le=60)] = 3.0


class Tls(_Model):
    """Where the certificate comes from: files, a Secret that replicas share, or the process alone (to try out)."""

    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    secret: trustsettings.SecretSettings | None = None
    self_signed: bool = False
    directory: Path | None = None
    service: str = "muster"
    namespace: str = "muster-system"
    names: tuple[str, ...] = ()


class Cluster(_Model):
    """Where runtimes, snapshots, TrainJobs and namespaces are read: the live API server, or files.

    Attributes:
        deadline: seconds for the one GET that a cache miss may cost.
    """

    source: Literal["live", "files"] = "live"
    files: tuple[Path, ...] = ()
    kubeconfig: Path | None = None
    deadline: Annotated[float, pydantic.Field(gt=0, le=10)] = 1.0


class AuditFile(_Model):
    """A rotated audit file."""

    path: Path
    max_bytes: Annotated[int, pydantic.Field(ge=64 * 1024)] = 64 * 1024 * 1024
    backups: Annotated[int, pydantic.Field(ge=1, le=1000)] = 5


class Audit(_Model):
    """Where records go, and what happens when they cannot.

    Attributes:
        on_failure: `fallback` writes to stdout while the file fails; `deny` refuses CREATEs that cannot be recorded.
        redact: further regular expressions of env names whose values are secret.
        events: whether a denied job also gets an Event in its namespace; needs `cluster.source: live`.
    """

    stdout: bool = True
    file: AuditFile | None = None
    queue_size: Annotated[int, pydantic.Field(ge=16, le=1_000_000)] = 10_000
    on_failure: Literal["fallback", "deny"] = "fallback"
    redact: tuple[str, ...] = ()
    events: bool = False


class Config(_Model):
    """The whole file."""

    api_version: Literal["muster.dev/v1alpha1"] = "muster.dev/v1alpha1"
    kind: Literal["MusterConfig"] = "MusterConfig"
    mode: SpokenMode = Mode.ENFORCE
    frameworks: dict[str, Framework] = {}
    on_failure: Literal["deny", "allow"] = "deny"
    plugin_budget: Annotated[float, pydantic.Field(gt=0, le=10)] = 1.0
    profiles: dict[profilesettings.ProfileName, profilesettings.ProfileSettings] = {}
    roles: dict[rolesettings.RoleName, rolesettings.RoleSettings] = {}
    server: Server = Server()
    tls: Tls = Tls()
    cluster: Cluster = Cluster()
    audit: Audit = Audit()
    controllers: controllersettings.ControllerSettings = controllersettings.ControllerSettings()

    @pydantic.model_validator(mode="after")
    def _offers_every_profile(self) -> Config:
        """Check that each profile that is given by policy is there; an error names all that are not."""
        asked = {f"frameworks.{name}.profile": each.profile for name, each in self.frameworks.items()}
        asked |= {f"roles.{name}.profile": each.profile for name, each in self.roles.items()}
        missing = [f"{key}: {name!r}" for key, name in asked.items() if name is not None and name not in self.profiles]
        if missing:
            known = ", ".join(sorted(self.profiles)) or "none"
            raise ValueError(f"{'; '.join(missing)}: no profile of this name; profiles has {known}")
        return self

    def policy(self, registry: Registry) -> Policy:
        """Return what decisions are made under."""
        return Policy(
            registry=registry,
            mode=self.mode,
            frameworks={
                name: FrameworkPolicy(each.mode, Settings(rendezvous=each.rendezvous, profile=each.profile))
                for name, each in self.frameworks.items()
            },
            on_plugin_failure=self.on_failure,
            plugin_budget=self.plugin_budget,
            profiles=profilesettings.profiles(self.profiles),
            roles=rolesettings.roles(self.roles),
        )

    def restart_needed(self, other: Config) -> list[str]:
        """Return the keys in which the other differs and which a running service cannot take over."""
        return [key for key in _AT_START if getattr(self, key) != getattr(other, key)]


def load(path: Path | None) -> Config:
    """Read a file; None is the default configuration.

    Raises:
        ConfigError: unreadable, not YAML, unknown keys, wrong values; all of them, each with its path.
    """
    if path is None:
        return Config()
    try:
        text = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(text) > _MAX_BYTES:
        raise ConfigError(f"{path}: is larger than {_MAX_BYTES} bytes; this cannot be a configuration file")
    return parse(text, str(path))


def parse(text: bytes, source: str) -> Config:
    """Read the text of a file called `source`; an empty one is the default configuration.

    Raises:
        ConfigError: as `load`.
    """
    try:
        document = yamls.load(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: is not UTF-8 at byte {error.start}; save it as UTF-8") from error
    except yamls.YamlError as error:
        raise ConfigError(f"{source}: line {error.line}: {error}") from error
    if document is None:
        return Config()
    if not isinstance(document, dict):
        raise ConfigError(f"{source}: holds a {type(document).__name__}; an object with keys such as mode is wanted")
    try:
        return Config.model_validate(document)
    except pydantic.ValidationError as error:
        lines = [_explained(source, each["loc"], each["msg"], each["input"], each["type"]) for each in error.errors()]
        raise ConfigError("\n".join(lines)) from error


def _explained(source: str, location: tuple[int | str, ...], message: str, value: object, kind: str) -> str:
    field = ".".join(str(part) for part in location)
    if kind == "extra_forbidden":
        return f"{source}: {field}: is no key that Muster knows; check its spelling and place"
    text, shown = message.removeprefix("Value error, "), f"{value!r}: "
    if kind == "value_error" and isinstance(
        value, dict
    ):  # of an object that contradicts itself: the text names members
        shown = ""
    return f"{source}: {f'{field}: ' if field else ''}{shown}{text[0].lower()}{text[1:]}"
