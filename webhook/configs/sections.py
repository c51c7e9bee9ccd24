"""The sections of the configuration file, but for `profiles:` and `roles:`, and the base class of all its parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import pydantic
from pydantic import alias_generators

from muster.strategies.documents.runtimes import VERSIONS
from muster.strategies.launches.guard_additions import Inject, Mount
from muster.webhook.admission import budgets

__all__ = [
    "AnchorSettings",
    "Audit",
    "AuditFile",
    "Budget",
    "CertificatesLease",
    "Checks",
    "ClusterSettings",
    "ControllerSettings",
    "GuardSettings",
    "LeaseSettings",
    "Model",
    "Name",
    "Namespace",
    "ReportLimits",
    "SecretSettings",
    "Server",
    "Tls",
    "TrainingSettings",
    "TrainingsLease",
]


_NAME = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"

Name = Annotated[str, pydantic.Field(max_length=253, pattern=_NAME)]
"""Of an object."""
Namespace = Annotated[str, pydantic.Field(max_length=63, pattern=_NAME)]


class Model(pydantic.BaseModel):
    """A part of the file: keys in camel case, unknown keys refused, immutable after reading."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, alias_generator=alias_generators.to_camel)


class LeaseSettings(Model):
    """The Lease by which one replica is elected as leader.

    Attributes:
        name: name of the Lease.
        namespace: namespace of the Lease, Muster's own.
        duration: seconds after which another replica may take a Lease that is not renewed.
        deadline: seconds within which the leader must renew the Lease; otherwise it stops leading.
        retry: seconds between two attempts to get or renew the Lease.
    """

    name: Name = "muster-controllers"
    namespace: Namespace = "muster-system"
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


class ControllerSettings(Model):
    """The controllers.

    Attributes:
        enabled: whether this process takes part; needs `cluster.source: live`.
        grace: seconds for which a claim or a template is kept after the last reference to it is gone.
        resync: seconds after which all objects are reconciled again.
        deadline: seconds for one request to the API server.
        ended_pods: seconds after which an ended pod of a Kubernetes Job is deleted while other pods use its shared
            claim; null keeps it. See docs/sharing.md.
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

    name: Name = "muster-trainings"


class TrainingSettings(Model):
    """Whether what the guard reports outlives the pods of a training; see docs/guard.md.

    Attributes:
        enabled: whether this process takes part; needs `cluster.source: live`.
        deadline: seconds for one request to the API server.
        lease: the Lease of the one replica that writes.
    """

    enabled: bool = False
    deadline: Annotated[float, pydantic.Field(gt=0, le=60)] = 5.0
    lease: TrainingsLease = TrainingsLease()


class GuardSettings(Model):
    """Which trainings are measured while they run, and how the guard gets into their pods; see docs/guard.md.

    Attributes:
        inject: `never`, `always`, or `open` for those of which the documents of a job alone do not tell ranks and
            devices for certain.
        mount: `init` copies the guard from the image into an emptyDir, by init containers; `image` mounts the image,
            which needs Kubernetes 1.35, and loses a PYTHONPATH that the training's own image sets.
        image: Muster's own image, as the Kubernetes nodes of trainings pull it; needed unless inject is `never`.
    """

    inject: Inject = "never"
    mount: Mount = "init"
    image: Annotated[str, pydantic.Field(max_length=512, pattern=r"^\S*$")] = ""

    @pydantic.model_validator(mode="after")
    def _names_the_image(self) -> GuardSettings:
        if self.inject != "never" and not self.image:
            raise ValueError(f"inject {self.inject}: image is missing; give the image of Muster's own Deployment")
        return self


_DAY = 86400.0


class CertificatesLease(LeaseSettings):
    """The Lease of the one replica that makes authorities and writes bundles."""

    name: Name = "muster-certificates"


class SecretSettings(Model):
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

    name: Name = "muster-ca"
    namespace: Namespace = "muster-system"
    webhooks: Name = "muster"
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


if TYPE_CHECKING:
    Trainer: TypeAlias = str
else:
    Trainer = Literal[tuple(VERSIONS)]


def _spelt(value: object) -> object:
    """YAML reads the unquoted 2.1 as a number."""
    return str(value) if isinstance(value, float) else value


_BUDGET = budgets.Budget()
_Limit = Annotated[int, pydantic.Field(ge=16, le=10_000_000)]


class Budget(Model):
    """How large a document may be before Muster reads it; `admission.budgets.Budget` explains each limit."""

    nesting: Annotated[int, pydantic.Field(ge=32, le=150)] = _BUDGET.nesting
    values: _Limit = _BUDGET.values
    entries: _Limit = _BUDGET.entries
    replicated_jobs: _Limit = _BUDGET.replicated_jobs
    containers: _Limit = _BUDGET.containers
    variables: _Limit = _BUDGET.variables
    claims: _Limit = _BUDGET.claims
    words: _Limit = _BUDGET.words
    text: _Limit = _BUDGET.text
    name: _Limit = _BUDGET.name


class Server(Model):
    """The listener.

    Attributes:
        host: address to bind.
        port: TCP port; 0 chooses a free one.
        body_limit: bytes of one AdmissionReview; 7 MiB holds two objects of the largest size that etcd stores.
        request_timeout: seconds for one request, below the `timeoutSeconds` of the webhook configuration.
        in_flight_limit: admissions at the same time; beyond that the newest of the namespace with most of them is
            answered with 429, and the API server retries or fails. A quarter as many large ones may be under way beside
            them.
        connection_limit: open connections; one more closes one that does nothing.
        bodies_limit: bytes of all bodies in memory, at least one of the largest; further ones drop the oldest that is
            still arriving, or the newest of the namespace with most bytes. A body takes up to 20 times its size once
            it is read, so a larger limit needs more memory than the 512 MiB of the installation.
        slow_timeout: seconds for the TLS handshake, for a request without its body, and for a client to take its
            answer.
        idle_timeout: seconds between two requests of a connection; above the 90 s of the API server, which should be
            the one to close it.
        shutdown_grace: seconds that open requests get to end at shutdown.
        readiness_delay: seconds between failing readiness and closing the listener, until the endpoint is removed.
    """

    host: str = "0.0.0.0"  # noqa: S104  # a pod is reached by its own address, which is not known before
    port: Annotated[int, pydantic.Field(ge=0, le=65535)] = 8443
    body_limit: Annotated[int, pydantic.Field(ge=64 * 1024, le=64 * 1024 * 1024)] = 7 * 1024 * 1024
    request_timeout: Annotated[float, pydantic.Field(gt=0, le=30)] = 4.0
    in_flight_limit: Annotated[int, pydantic.Field(ge=1)] = 200
    connection_limit: Annotated[int, pydantic.Field(ge=16, le=100_000)] = 1000
    bodies_limit: Annotated[int, pydantic.Field(ge=64 * 1024, le=1024 * 1024 * 1024)] = 16 * 1024 * 1024
    slow_timeout: Annotated[float, pydantic.Field(ge=1, le=60)] = 5.0
    idle_timeout: Annotated[float, pydantic.Field(gt=90, le=3600)] = 120.0
    shutdown_grace: Annotated[float, pydantic.Field(ge=0, le=300)] = 10.0
    readiness_delay: Annotated[float, pydantic.Field(ge=0, le=60)] = 8.0


class Tls(Model):
    """Where the certificate comes from: files, a Secret that replicas share, or the process itself (for trials).

    Attributes:
        cert_file: certificate in PEM; all three files are given, or none.
        key_file: its private key in PEM.
        ca_file: the authority that signed it, in PEM.
        secret: certificates that the replicas make and share; `{}` for the defaults.
        self_signed: whether an authority and a leaf are made at start, for tests.
        directory: where a self-signed authority is kept, so that clients continue to trust it; in memory without it.
        service: name of the Service that the certificate is for.
        namespace: namespace of that Service.
        names: further DNS names or addresses in the certificate.
    """

    cert_file: Path | None = None
    key_file: Path | None = None
    ca_file: Path | None = None
    secret: SecretSettings | None = None
    self_signed: bool = False
    directory: Path | None = None
    service: str = "muster"
    namespace: str = "muster-system"
    names: tuple[str, ...] = ()


class ClusterSettings(Model):
    """Where runtimes, snapshots, TrainJobs and namespaces are read: the live API server, or files.

    Attributes:
        source: `live` watches the objects of the API server; `files` reads the documents in `files`.
        files: files, and folders with files.
        kubeconfig: kubeconfig of the cluster; by default the pod's service account, else KUBECONFIG.
        deadline: seconds for the one GET after a cache miss.
        namespaces: the only namespaces whose objects are read and in which anything is written; () for all. The webhook
            configurations must select the same ones.
        cache_limit: bytes that cached objects may take, of which each kind has a share; others are fetched when needed.
        trainer: version of Trainer; by default that whose TrainJob the API server serves, and of files the newest.
    """

    source: Literal["live", "files"] = "live"
    files: tuple[Path, ...] = ()
    kubeconfig: Path | None = None
    deadline: Annotated[float, pydantic.Field(gt=0, le=10)] = 1.0
    namespaces: tuple[Namespace, ...] = ()
    cache_limit: Annotated[int, pydantic.Field(ge=16 * 1024 * 1024)] = 160 * 1024 * 1024
    trainer: Annotated[Trainer, pydantic.BeforeValidator(_spelt)] | None = None


class Checks(Model):
    """Questions to the API server about a job, besides Muster's own rules.

    Attributes:
        dry_run: whether the API server is asked, by dry runs, about the Jobs and pods of a job that is created; needs
            `cluster.source: live`, and rights of its own.
        dry_run_share: the part of `server.requestTimeout` that all dry runs of one job may take; then it is let in.
    """

    dry_run: bool = False
    dry_run_share: Annotated[float, pydantic.Field(gt=0, le=0.8)] = 0.5


class AuditFile(Model):
    """A rotated audit file.

    Attributes:
        path: the file; rotated ones have a number behind its name.
        max_bytes: bytes after which it is rotated.
        backups: rotated files that are kept.
    """

    path: Path
    max_bytes: Annotated[int, pydantic.Field(ge=64 * 1024)] = 64 * 1024 * 1024
    backups: Annotated[int, pydantic.Field(ge=1, le=1000)] = 5


class ReportLimits(Model):
    """Limits of a report.

    Attributes:
        results: maximum number of results in the report of a namespace.
        days: age after which a result is removed.
    """

    results: Annotated[int, pydantic.Field(ge=1, le=500)] = 100
    days: Annotated[float, pydantic.Field(gt=0, le=366)] = 7.0


class AnchorSettings(Model):
    """How anchors are noted.

    Attributes:
        interval: seconds between two anchors of a log.
        namespace: the namespace of the ConfigMap, which is Muster's own.
    """

    interval: Annotated[float, pydantic.Field(ge=5, le=86400)] = 60.0
    namespace: str = "muster-system"


class Audit(Model):
    """Where audit records go, and what happens when they cannot be written.

    Attributes:
        stdout: whether records go to standard output.
        file: the file that records go to as well; none without it.
        queue_size: records that may wait to be written.
        on_failure: `fallback` writes to stdout while the file fails; `deny` refuses CREATEs that cannot be recorded.
        record: `known` writes values of members that Muster understands, and a hash of every other; `full` writes the
            values that jobs have, without those that look like secrets.
        redact: with `full`, regular expressions of further names whose values are secret.
        events: whether a denied job also gets an Event in its namespace; needs `cluster.source: live`.
        reports: the format of the report that each namespace with jobs gets; needs `cluster.source: live`.
        report_limits: limits of these reports.
        anchors: where number and hash of the last record are noted from time to time, so that a log that was cut off
            shows; needs `cluster.source: live`.
        anchor_settings: how they are noted.
    """

    stdout: bool = True
    file: AuditFile | None = None
    queue_size: Annotated[int, pydantic.Field(ge=16, le=1_000_000)] = 10_000
    on_failure: Literal["fallback", "deny"] = "fallback"
    record: Literal["known", "full"] = "known"
    redact: tuple[str, ...] = ()
    events: bool = False
    reports: Literal["none", "openreports", "policyreport"] = "none"
    report_limits: ReportLimits = ReportLimits()
    anchors: Literal["none", "configmap"] = "none"
    anchor_settings: AnchorSettings = AnchorSettings()
