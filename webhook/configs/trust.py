"""`tls.secret:` of the configuration file: certificates that the replicas make and share themselves."""

from __future__ import annotations

from typing import Annotated

import pydantic

from webhook.configs import controllers, models

__all__ = ["CertificatesLease", "SecretSettings"]

_DAY = 86400.0


class CertificatesLease(controllers.LeaseSettings):
    """The Lease of the one replica that makes authorities and writes bundles."""

    name: models.Name = "muster-certificates"


class SecretSettings(models.Model):
    """Certificates by way of a Secret.

    Attributes:
        name, namespace: of the Secret with the authorities; any replica makes it.
        webhooks: name of both webhook configurations, whose `caBundle` the leader writes.
        authority_validity: seconds; a successor is made at two thirds of it.
        leaf_validity: seconds; each replica makes its next leaf at two thirds of it.
        settle: seconds for which a new authority must have stood in `caBundle` before leaves of it are served.
        interval: seconds between looks at the Secret, at `caBundle`, and at whether the leaf is due.
        lease: of the leader.
    """

    name: models.Name = "muster-ca"
    namespace: models.Namespace = "muster-system"
    webhooks: models.Name = "muster"
    authority_validity: Annotated[float, pydantic.Field(ge=60, le=3650 * _DAY)] = 365 * _DAY
    leaf_validity: Annotated[float, pydantic.Field(ge=10, le=90 * _DAY)] = _DAY
    settle: Annotated[float, pydantic.Field(ge=0, le=3600)] = 10.0
    interval: Annotated[float, pydantic.Field(ge=0.1, le=300)] = 5.0
    lease: CertificatesLease = CertificatesLease()

    @pydantic.model_validator(mode="after")
    def _leaves_fit(self) -> SecretSettings:
        """Check that an authority outlives its leaves, and that there is time for a change before they end."""
        if self.leaf_validity * 3 > self.authority_validity:
            raise ValueError(
                f"leafValidity {self.leaf_validity:g}, authorityValidity {self.authority_validity:g}: "
                "an authority must live three times as long as a leaf, to be replaced in time"
            )
        if self.settle + 2 * self.interval > self.leaf_validity / 3:
            raise ValueError(
                f"settle {self.settle:g}, interval {self.interval:g}: a leaf of {self.leaf_validity:g} s may end "
                "before its successor is trusted; settle and two intervals must fit into a third of it"
            )
        return self
