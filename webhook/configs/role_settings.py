"""`roles:` of the configuration file: which Kubernetes nodes roles run on, checked as far as files allow.

Mistakes that only show in a cluster, such as nodes that are too small, become findings on the jobs of the role.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pydantic

from muster.strategies.platform.placements import Role
from muster.webhook.configs.profile_settings import ProfileName
from muster.webhook.configs.sections import Model

__all__ = ["RoleName", "RoleSettings", "Toleration"]

_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_QUALIFIED = rf"^([a-z0-9]([-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}$"

RoleName = Literal["trainer", "sampler"]
_LabelKey = Annotated[str, pydantic.Field(pattern=_QUALIFIED)]
_LabelValue = Annotated[str, pydantic.Field(pattern=rf"^({_NAME})?$")]
_LabelValues = Annotated[tuple[_LabelValue, ...], pydantic.Field(min_length=1)]


class Toleration(Model):
    """One toleration, as Kubernetes checks it (core/v1 Toleration).

    Attributes:
        key: key of the taint; without it, with operator Exists, every taint.
        operator: whether the value has to be equal, or the key only has to exist.
        value: value of the taint.
        effect: effect of the taint; every effect without it.
        toleration_seconds: seconds for which a NoExecute taint is tolerated; for ever without it.
    """

    key: _LabelKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: _LabelValue | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    toleration_seconds: int | None = None

    @pydantic.model_validator(mode="after")
    def _makes_sense(self) -> Toleration:
        if self.operator == "Exists" and self.value is not None:
            raise ValueError("value: has no effect with operator: Exists; remove one of the two")
        if self.operator == "Equal" and self.key is None:
            raise ValueError("key: is required unless operator is Exists")
        if self.toleration_seconds is not None and self.effect != "NoExecute":
            raise ValueError("tolerationSeconds: is allowed with effect: NoExecute only")
        return self


class RoleSettings(Model):
    """One role; see `muster.strategies.platform.placements.Role` for what each member means.

    Attributes:
        node_labels: by key, one value or a list of values, one of which a Kubernetes node must have.
    """

    node_labels: dict[_LabelKey, _LabelValues] = pydantic.Field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    apart: bool = False
    spread: _LabelKey | None = None
    profile: ProfileName | None = None

    @pydantic.field_validator("node_labels", mode="before")
    @classmethod
    def _listed(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {key: (value,) if isinstance(value, str) else value for key, value in given.items()}

    def role(self, name: str) -> Role:
        """Return the role of this name."""
        tolerations = (each.model_dump(by_alias=True, exclude_none=True) for each in self.tolerations)
        return Role(name=name, **{**dict(self), "tolerations": tuple(tolerations)})
