"""`controllers:` and `trainings:` of the configuration file: what this process writes, and how it is elected."""

from __future__ import annotations

from typing import Annotated

import pydantic

from muster.webhook.configs import models

__all__ = ["ControllerSettings", "LeaseSettings", "TrainingSettings", "TrainingsLease"]


class LeaseSettings(models.Model):
    """The Lease by which one replica is elected as leader.

    Attributes:
        name: name of the Lease.
        namespace: namespace of the Lease, Muster's own.
        duration: seconds after which another replica may take a Lease that is not renewed.
        deadline: seconds within which the leader must renew the Lease; otherwise it stops leading.
        retry: seconds between two attempts to get or renew the Lease.
    """

    name: models.Name = "muster-controllers"
    namespace: models.Namespace = "muster-system"
    duration: Annotated[float, pydantic.Field(ge=1, le=600)] = 15.0
    deadline: Annotated[float, pydantic.Field(gt=0, le=600)] = 10.0
    retry: Annotated[float, pydantic.Field(gt=0, le=60)] = 2.0

    @pydantic.model_validator(mode="after")
    def _leaves_time(self) -> LeaseSettings:
        """Check that the leader has time for a retry, and stops before another replica may start."""
        if not self.retry < self.deadline < self.duration:
            raise ValueError(
                f"retry {self.retry}, deadline {self.deadline}, duration {self.duration}: "
                "each must be less than the next"
            )
        return self


class ControllerSettings(models.Model):
    """The controllers.

    Attributes:
        enabled: whether this process takes part; needs `cluster.source: live`.
        grace: seconds for which a claim or a template is kept after the last reference to it is gone.
        resync: seconds after which all objects are reconciled again.
        deadline: seconds for one request to the API server.
        ended_pods: seconds after which an ended pod of a Kubernetes Job is deleted while other pods use its shared
            claim; null keeps it. See docs/controllers.md.
        lease: the Lease of the leader.
    """

    enabled: bool = False
    grace: Annotated[float, pydantic.Field(ge=0, le=86400)] = 300.0
    resync: Annotated[float, pydantic.Field(ge=1, le=3600)] = 30.0
    deadline: Annotated[float, pydantic.Field(gt=0, le=60)] = 5.0
    ended_pods: Annotated[float, pydantic.Field(ge=0, le=86400)] | None = 300.0
    lease: LeaseSettings = LeaseSettings()


class TrainingsLease(LeaseSettings):
    """The Lease of the one replica that keeps what trainings reported."""

    name: models.Name = "muster-trainings"


class TrainingSettings(models.Model):
    """Whether what the guard reports outlives the pods of a training; see docs/guard.md.

    Attributes:
        enabled: whether this process takes part; needs `cluster.source: live`.
        deadline: seconds for one request to the API server.
        lease: the Lease of the one replica that writes.
    """

    enabled: bool = False
    deadline: Annotated[float, pydantic.Field(gt=0, le=60)] = 5.0
    lease: TrainingsLease = TrainingsLease()
