"""`profiles:` of the configuration file: named claims on devices, checked as far as it can be without a cluster.

Mistakes that only show in a cluster, such as a device class that does not exist, become findings on the jobs that ask
for the profile.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import pydantic
from pydantic import alias_generators

from muster.strategies.claims.requests import NO_PROFILE
from muster.strategies.documents import quantities
from muster.strategies.platform.profiles import Profile
from muster.webhook.configs.sections import Model

__all__ = ["DriverConfig", "ProfileName", "ProfileSettings"]

_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
_QUALIFIED = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"
_CAPACITY = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]*$"
_SHARED_ONLY = {"maxSessions": 1, "claims": 1, "whenFull": "wait"}
_EXCLUSIVE = re.compile(r"exclusive", re.IGNORECASE)


def _not_reserved(name: str) -> str:
    if name == NO_PROFILE:
        raise ValueError(f"{NO_PROFILE} is how a job asks for no profile; choose another name")
    return name


def _quantity(text: str) -> str:
    if quantities.value(text) < 1:
        raise ValueError("must be more than 0")
    return text


ProfileName = Annotated[
    str,
    pydantic.Field(max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"),
    pydantic.AfterValidator(_not_reserved),
]
"""A DNS label, short enough for `muster-` and a number to be added in the names of objects."""
_Quantity = Annotated[str, pydantic.AfterValidator(_quantity)]
_Subdomain = Annotated[str, pydantic.Field(max_length=253, pattern=_SUBDOMAIN)]


class DriverConfig(Model):
    """Opaque configuration of one driver; by default most drivers accept it only with a feature gate.

    Attributes:
        driver: name of the driver.
        parameters: what it is given, as its own documentation says.
    """

    driver: _Subdomain
    parameters: dict[str, Any]


class ProfileSettings(Model):
    """One profile; see `muster.strategies.platform.profiles.Profile` for what each member means."""

    device_class: _Subdomain
    count: Annotated[int, pydantic.Field(ge=1, le=128)] = 1
    selectors: Annotated[tuple[Annotated[str, pydantic.Field(min_length=1)], ...], pydantic.Field(max_length=32)] = ()
    match_attributes: Annotated[
        tuple[Annotated[str, pydantic.Field(pattern=_QUALIFIED)], ...], pydantic.Field(max_length=32)
    ] = ()
    config: Annotated[tuple[DriverConfig, ...], pydantic.Field(max_length=32)] = ()
    capacity: dict[Annotated[str, pydantic.Field(pattern=_CAPACITY)], _Quantity] = pydantic.Field(default_factory=dict)
    sharing: Literal["dedicated", "shared"] = "dedicated"
    max_sessions: Annotated[int, pydantic.Field(ge=1, le=256)] = 1
    claims: Annotated[int, pydantic.Field(ge=1, le=256)] = 1
    when_full: Literal["wait", "deny"] = "wait"
    replaces: Annotated[str, pydantic.Field(pattern=_QUALIFIED)] | None = None
    memory: _Quantity | None = None

    @pydantic.model_validator(mode="after")
    def _fits_its_sharing(self) -> ProfileSettings:
        if self.sharing == "dedicated":
            wrong = [
                key for key, value in _SHARED_ONLY.items() if getattr(self, alias_generators.to_snake(key)) != value
            ]
            if wrong:
                raise ValueError(
                    f"{', '.join(wrong)}: cannot be used without sharing: shared; set that, or remove them"
                )
            return self
        if self.capacity:
            message = "capacity: needs sharing: dedicated, because each pod gets its part by its own claim"
            raise ValueError(message)
        for number, config in enumerate(self.config):
            for path, value in _exclusive(config.parameters, f"config[{number}].parameters"):
                raise ValueError(
                    f"{path}: {value!r} allows only one pod on the device, but sharing: shared allows several; "
                    "change one of them"
                )
        return self

    def profile(self, name: str) -> Profile:
        """Return the profile of this name."""
        config = tuple({"driver": each.driver, "parameters": each.parameters} for each in self.config)
        return Profile(name=name, **{**dict(self), "config": config})


def _exclusive(value: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield path and value of driver parameters that ask for exclusive use, such as `strategy: Exclusive`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _exclusive(inner, f"{path}.{key}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _exclusive(inner, f"{path}[{index}]")
    elif isinstance(value, str) and _EXCLUSIVE.search(value):
        yield path, value
