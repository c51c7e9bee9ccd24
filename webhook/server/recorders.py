"""The audit writer that the configuration asks for, and the notices: Events, reports and anchors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from muster.audit import anchor_notes, known, record_limits, scanner, sinks, writer
from muster.audit.record_schema import Record
from muster.kube import transports
from muster.webhook import configs
from muster.webhook.cluster import writes
from muster.webhook.metrics import Metrics
from muster.webhook.notices import anchors, denials, report_objects, report_writers
from muster.webhook.server import clusters

__all__ = ["Announcer", "AuditRecorder", "Keeper", "Teller", "open_announcer", "open_keeper", "open_recorder"]

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0


class Teller(Protocol):
    """Writes notices about decisions into the cluster, outside of admissions."""

    def take(self, record: Record) -> None:
        """Queue a notice about a decision, if it needs one; never waits."""

    async def run(self) -> None:
        """Write queued notices until cancelled."""


class AuditRecorder:
    """Settles what of a decision is written, once for the log and for notices, and hands it on.

    Args:
        audit: writes the log.
        full: makes the record of the log where that is not what is `known`.
        concealed: called for each record of which only the head can be written.
    """

    def __init__(
        self,
        audit: writer.AuditWriter,
        full: Callable[[Record], Record] | None = None,
        concealed: Callable[[], None] = lambda: None,
    ) -> None:
        self._audit = audit
        self._full = full
        self._concealed = concealed
        self.tellers: tuple[Teller, ...] = ()

    @property
    def ends(self) -> list[anchor_notes.Ends | None]:
        """What was written of each chain."""
        return self._audit.ends

    def submit(self, record: Record) -> bool:
        """Return False when the record of a decision cannot be kept and `onFailure: deny` is set."""
        shown = record_limits.surely(known.record, record, partial(self._failed, record))
        full = self._full
        kept = self._audit.submit(
            record_limits.surely(full, record, partial(self._failed, record)) if full is not None else shown
        )
        for each in self.tellers:
            try:
                each.take(shown)
            except Exception:  # noqa: BLE001  # the record is kept, and the answer does not depend on it
                _log.exception("a notice was not taken", extra={"uid": record.get("uid")})
        return kept

    def _failed(self, record: Record, error: Exception) -> None:
        _log.error("audit record concealed", extra={"uid": record.get("uid"), "error": type(error).__name__})
        self._concealed()

    def close(self) -> None:
        """Write the waiting records and close the sinks; blocks for some seconds at most."""
        self._audit.close(_CLOSE_SECONDS)


class Announcer:
    """Runs those who write notices; needs a running event loop."""

    def __init__(self, tellers: Iterable[Teller]) -> None:
        self._tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in tellers]

    async def stop(self) -> None:
        """Stop; waiting Events are dropped, waiting reports are written within two seconds."""
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


class Keeper:
    """Notes anchors of the recorder's logs; needs a running event loop.

    Args:
        recorder: writes the logs.
        noter: writes the anchors.
    """

    def __init__(self, recorder: AuditRecorder, noter: anchors.Anchors) -> None:
        self._recorder = recorder
        self._noter = noter
        self._task = asyncio.create_task(noter.run(), name="audit anchors")

    async def stop(self) -> None:
        """Close the recorder, and note its last records; takes seven seconds at most."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._recorder.close)
        await self._noter.end()


def open_announcer(
    config: configs.Audit, recorder: AuditRecorder, sender: transports.Sender | None, metrics: Metrics
) -> Announcer | None:
    """Start writing Events on denials and reports; return None when neither is configured.

    Raises:
        ConfigError: there is no API server to write to.
    """
    wanted = ["audit.events: true"] * config.events
    wanted += [f"audit.reports: {config.reports}"] * (config.reports != "none")
    if not wanted:
        return None
    connection = clusters.required(sender, " and ".join(wanted), "it writes to the API server")
    access = writes.Writes(connection, counted=metrics.written)
    tellers: list[Teller] = []
    if config.events:
        tellers.append(denials.Denials(access, partial(metrics.audit_problem, "event")))
    if config.reports != "none":
        form = report_objects.FORMATS[config.reports]
        limits = report_objects.Limits(config.report_limits.results, config.report_limits.days * 86400.0)
        tellers.append(report_writers.Reports(access, form, partial(metrics.audit_problem, "report"), limits))
    recorder.tellers = tuple(tellers)
    return Announcer(tellers)


def open_keeper(
    config: configs.Audit, recorder: AuditRecorder, sender: transports.Sender | None, metrics: Metrics
) -> Keeper | None:
    """Start noting anchors; return None when that is not configured.

    Raises:
        ConfigError: there is no API server to write to.
    """
    if config.anchors == "none":
        return None
    connection = clusters.required(sender, f"audit.anchors: {config.anchors}", "it writes to the API server")
    access, settings = writes.Writes(connection, counted=metrics.written), config.anchor_settings
    failed = partial(metrics.audit_problem, "anchor")
    return Keeper(
        recorder, anchors.Anchors(access, settings.namespace, lambda: recorder.ends, failed, settings.interval)
    )


def open_recorder(config: configs.Audit, metrics: Metrics) -> AuditRecorder:
    """Open the sinks and start the writer.

    Raises:
        ConfigError: no sink is named, or a pattern of `audit.redact` is not a regular expression.
    """
    chosen: list[sinks.Sink] = []
    if config.file is not None:
        chosen.append(
            sinks.RotatingFileSink(config.file.path, max_bytes=config.file.max_bytes, backups=config.file.backups)
        )
    if config.stdout:
        chosen.append(sinks.StreamSink())
    if not chosen:
        raise configs.ConfigError("audit: stdout is false and no file is named; set one of them")
    try:
        names = scanner.compiled(config.redact)
    except ValueError as error:
        raise configs.ConfigError(f"audit.redact: {error}") from error
    known.prepare()
    audit = writer.AuditWriter(
        chosen,
        queue_size=config.queue_size,
        on_failure=config.on_failure,
        on_drop=lambda _reason, count: metrics.audit_problem("dropped", count),
        on_error=lambda _name, _error: metrics.audit_problem("sink"),
    )
    full = partial(scanner.record, further=names) if config.record == "full" else None
    return AuditRecorder(audit, full, partial(metrics.audit_problem, "concealed"))
