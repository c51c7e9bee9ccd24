"""The sections that say how the service runs: frameworks, listener, certificate, cluster, audit log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import pydantic

from muster.strategies.documents.trainer_versions import VERSIONS
from muster.webhook.admission import budgets
from muster.webhook.admission.policies import Mode
from muster.webhook.configs import models, profiles, trust

__all__ = [
    "AnchorSettings",
    "Audit",
    "AuditFile",
    "Budget",
    "Checks",
    "ClusterSettings",
    "Framework",
    "ReportLimits",
    "Server",
    "SpokenMode",
    "Tls",
]


def _spoken(value: object) -> object:
    return "off" if value is False else value


SpokenMode = Annotated[Mode, pydantic.BeforeValidator(_spoken)]
"""A mode; YAML 1.1 reads the unquoted word off as false, which counts as `off`."""


class Framework(models.Model):
    """Settings of one framework.

    Attributes:
        mode: mode of its jobs; the one of the file without it.
        rendezvous: how the ranks meet unless the job says otherwise; see docs/rendezvous.md.
        profile: claim profile of jobs that ask for none.
    """

    mode: SpokenMode | None = None
    rendezvous: Literal["static", "c10d"] = "static"
    profile: profiles.ProfileName | None = None


if TYPE_CHECKING:
    Trainer: TypeAlias = str
else:
    Trainer = Literal[tuple(VERSIONS)]


def _spelt(value: object) -> object:
    """YAML reads the unquoted 2.1 as a number."""
    return str(value) if isinstance(value, float) else value


_BUDGET = budgets.Budget()
_Limit = Annotated[int, pydantic.Field(ge=16, le=10_000_000)]


class Budget(models.Model):
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


class Server(models.Model):
    """The listener.

    Attributes:
        host: address to bind.
        port: TCP port; 0 chooses a free one.
        body_limit: bytes of one AdmissionReview; 7 MiB holds two objects of the largest size that etcd stores.
        request_timeout: seconds for one request, below the `timeoutSeconds` of the webhook configuration.
        in_flight_limit: admissions at the same time; further ones are answered with 429, and the API server retries or
            fails. A quarter as many large ones may be under way beside them.
        connection_limit: open connections; one more closes one that does nothing.
        bodies_limit: bytes of all bodies in memory, at least one of the largest; further ones drop the oldest that is
            still arriving.
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
    bodies_limit: Annotated[int, pydantic.Field(ge=64 * 1024, le=1024 * 1024 * 1024)] = 64 * 1024 * 1024
    slow_timeout: Annotated[float, pydantic.Field(ge=1, le=60)] = 5.0
    idle_timeout: Annotated[float, pydantic.Field(gt=90, le=3600)] = 120.0
    shutdown_grace: Annotated[float, pydantic.Field(ge=0, le=300)] = 10.0
    readiness_delay: Annotated[float, pydantic.Field(ge=0, le=60)] = 8.0


class Tls(models.Model):
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
    secret: trust.SecretSettings | None = None
    self_signed: bool = False
    directory: Path | None = None
    service: str = "muster"
    namespace: str = "muster-system"
    names: tuple[str, ...] = ()


class ClusterSettings(models.Model):
    """Where runtimes, snapshots, TrainJobs and namespaces are read: the live API server, or files.

    Attributes:
        source: `live` watches the objects of the API server; `files` reads the documents in `files`.
        files: files, and folders with files.
        kubeconfig: kubeconfig of the cluster; by default the pod's service account, else KUBECONFIG.
        deadline: seconds for the one GET after a cache miss.
        cache_limit: bytes that cached objects may take, of which each kind has a share; others are fetched when needed.
        trainer: version of Trainer; by default that whose TrainJob the API server serves, and of files the newest.
    """

    source: Literal["live", "files"] = "live"
    files: tuple[Path, ...] = ()
    kubeconfig: Path | None = None
    deadline: Annotated[float, pydantic.Field(gt=0, le=10)] = 1.0
    cache_limit: Annotated[int, pydantic.Field(ge=16 * 1024 * 1024)] = 160 * 1024 * 1024
    trainer: Annotated[Trainer, pydantic.BeforeValidator(_spelt)] | None = None


class Checks(models.Model):
    """What is asked about a job besides what Muster knows itself.

    Attributes:
        dry_run: whether the API server is asked, by dry runs, about the Jobs and pods of a job that is created; needs
            `cluster.source: live`, and rights of its own.
        dry_run_share: the part of `server.requestTimeout` that all dry runs of one job may take; then it is let in.
    """

    dry_run: bool = False
    dry_run_share: Annotated[float, pydantic.Field(gt=0, le=0.8)] = 0.5


class AuditFile(models.Model):
    """A rotated audit file.

    Attributes:
        path: the file; rotated ones have a number behind its name.
        max_bytes: bytes after which it is rotated.
        backups: rotated files that are kept.
    """

    path: Path
    max_bytes: Annotated[int, pydantic.Field(ge=64 * 1024)] = 64 * 1024 * 1024
    backups: Annotated[int, pydantic.Field(ge=1, le=1000)] = 5


class ReportLimits(models.Model):
    """Limits of a report.

    Attributes:
        results: maximum number of results in the report of a namespace.
        days: age after which a result is removed.
    """

    results: Annotated[int, pydantic.Field(ge=1, le=500)] = 100
    days: Annotated[float, pydantic.Field(gt=0, le=366)] = 7.0


class AnchorSettings(models.Model):
    """How anchors are noted.

    Attributes:
        interval: seconds between two anchors of a log.
        namespace: the namespace of the ConfigMap, which is Muster's own.
    """

    interval: Annotated[float, pydantic.Field(ge=5, le=86400)] = 60.0
    namespace: str = "muster-system"


class Audit(models.Model):
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
