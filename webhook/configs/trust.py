"""`tls.secret:` of the configuration file: certificates that the replicas make and share themselves."""

from __future__ import annotations

from typing import Annotated

import pydantic

from muster.webhook.configs import controllers, models

__all__ = ["CertificatesLease", "SecretSettings"]

_DAY = 86400.0


class CertificatesLease(controllers.LeaseSettings):
    """The Lease of the one replica that makes authorities and writes bundles."""

    name: models.Name = "muster-certificates"


class SecretSettings(models.Model):
    """Certificates whose authorities are in a Secret.

    Attributes:
        name: name of the Secret with the authorities; the first replica that needs it creates it.
        namespace: namespace of that Secret.
        webhooks: name of both webhook configurations; the leader writes their `caBundle`.
        authority_validity: seconds; after two thirds of it a new authority is made.
        leaf_validity: seconds; each replica makes its next leaf after two thirds of it.
        settle: seconds for which a new authority must be in `caBundle` before leaves that it signed are served.
        interval: seconds between checks of the Secret, of `caBundle` and of the age of the leaf.
        lease: the Lease of the leader.
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
        """Check that an authority outlives its leaves, and that there is time to change it before they expire."""
        if self.leaf_validity * 3 > self.authority_validity:
            raise ValueError(
                f"leafValidity {self.leaf_validity:g}, authorityValidity {self.authority_validity:g}: "
                "an authority must live three times as long as a leaf, so that it is replaced in time"
            )
        if self.settle + 2 * self.interval > self.leaf_validity / 3:
            raise ValueError(
                f"settle {self.settle:g}, interval {self.interval:g}: a leaf of {self.leaf_validity:g} s may expire "
                "before its successor is trusted; settle and two intervals must fit into a third of it"
            )
        return self
