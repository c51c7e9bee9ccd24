"""The audit writer that the configuration asks for, and the notices: Events, reports and anchors."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from muster.kube import transports
from muster.webhook import configs
from muster.webhook.audit import records
from muster.webhook.audit.log import notes, sinks, writer
from muster.webhook.audit.redaction import doors, redaction
from muster.webhook.cluster import writes
from muster.webhook.metrics import Metrics
from muster.webhook.notices import anchors, denials
from muster.webhook.notices.reports import folds, formats, writers

__all__ = [
    "Announcer",
    "AuditRecorder",
    "Keeper",
    "Teller",
    "open_announcer",
    "open_keeper",
    "open_recorder",
    "use_rules",
]

_log = logging.getLogger(__name__)
_CLOSE_SECONDS = 5.0
_FLUSH_SECONDS = 1.0


class AuditRecorder:
    """An `AuditWriter` that can be closed: waiting records are written within seconds, or counted as dropped."""

    def __init__(self, audit: writer.AuditWriter) -> None:
        self.submit = audit.submit
        self._audit = audit

    @property
    def ends(self) -> list[notes.Ends | None]:
        """What was written of each chain."""
        return self._audit.ends

    def flush(self) -> None:
        """Wait until the waiting records are written; blocks for a second at most."""
        self._audit.flush(_FLUSH_SECONDS)

    def close(self) -> None:
        """Write the waiting records and close the sinks; blocks for some seconds at most."""
        self._audit.close(_CLOSE_SECONDS)


class Teller(Protocol):
    """Writes notices about decisions into the cluster, outside of admissions."""

    def take(self, record: records.Record) -> None:
        """Queue a notice about a decision, if it needs one; never waits."""

    async def run(self) -> None:
        """Write queued notices until cancelled."""


class Announcer:
    """Passes records on to the recorder and to those who write notices; needs a running event loop.

    Args:
        recorder: keeps the records.
        tellers: write Events or reports.
    """

    def __init__(self, recorder: AuditRecorder, tellers: Iterable[Teller]) -> None:
        self._submit = recorder.submit
        self._tellers = tuple(tellers)
        self._tasks = [asyncio.create_task(each.run(), name=type(each).__name__) for each in self._tellers]

    def submit(self, record: records.Record) -> bool:
        """Return False when the record cannot be kept and `onFailure: deny` is set."""
        kept = self._submit(record)
        for each in self._tellers:
            try:
                each.take(record)
            except Exception:  # noqa: BLE001  # the record is kept, and the answer does not depend on it
                _log.exception("a notice was not taken", extra={"uid": record.get("uid")})
        return kept

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
        """Stop, and note the last records; takes three seconds at most."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        await asyncio.to_thread(self._recorder.flush)
        await self._noter.end()


def open_announcer(
    config: configs.Audit, recorder: AuditRecorder, sender: transports.Sender | None, metrics: Metrics
) -> Announcer | None:
    """Start writing Events on denials and reports; return None when neither is configured.

    Raises:
        ConfigError: there is no API server to write to.
    """
    wanted = [f"audit.{key}: {said}" for key, said in _asked(config).items()]
    if not wanted:
        return None
    if sender is None:
        raise configs.ConfigError(
            f"{' and '.join(wanted)} needs cluster.source: live, because it writes to the API server"
        )
    access = writes.Writes(sender, counted=metrics.written)
    return Announcer(recorder, _tellers(config, access, metrics))


def _asked(config: configs.Audit) -> dict[str, str]:
    asked = {"events": "true"} if config.events else {}
    return asked | ({"reports": config.reports} if config.reports != "none" else {})


def _tellers(config: configs.Audit, access: writes.Writes, metrics: Metrics) -> Iterable[Teller]:
    redactor = _redactor(config)
    if config.events:
        yield denials.Denials(access, redactor, partial(metrics.audit_problem, "event"))
    if config.reports != "none":
        form = formats.FORMATS[config.reports]
        limits = folds.Limits(config.report_limits.results, config.report_limits.days * 86400.0)
        yield writers.Reports(access, form, redactor, partial(metrics.audit_problem, "report"), limits)


def open_keeper(
    config: configs.Audit, recorder: AuditRecorder, sender: transports.Sender | None, metrics: Metrics
) -> Keeper | None:
    """Start noting anchors; return None when that is not configured.

    Raises:
        ConfigError: there is no API server to write to.
    """
    if config.anchors == "none":
        return None
    if sender is None:
        raise configs.ConfigError(
            f"audit.anchors: {config.anchors} needs cluster.source: live, because it writes to the API server"
        )
    access, settings = writes.Writes(sender, counted=metrics.written), config.anchor_settings
    failed = partial(metrics.audit_problem, "anchor")
    return Keeper(
        recorder, anchors.Anchors(access, settings.namespace, lambda: recorder.ends, failed, settings.interval)
    )


def open_recorder(config: configs.Audit, metrics: Metrics) -> AuditRecorder:
    """Open the sinks and start the writer.

    Raises:
        ConfigError: no sink is named, or a redaction pattern is not a regular expression.
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
    return AuditRecorder(
        writer.AuditWriter(
            chosen,
            queue_size=config.queue_size,
            on_failure=config.on_failure,
            redactor=_redactor(config),
            on_drop=lambda _reason, count: metrics.audit_problem("dropped", count),
            on_conceal=partial(metrics.audit_problem, "concealed"),
            on_error=lambda _name, _error: metrics.audit_problem("sink"),
        )
    )


def use_rules(config: configs.Audit) -> None:
    """Let answers and log lines of this process hide what `audit.redact` names, as the log does.

    Raises:
        ConfigError: a redaction pattern is not a regular expression.
    """
    doors.further(_rules(config.redact))


def _redactor(config: configs.Audit) -> Callable[[records.Record], records.Record]:
    return partial(redaction.redact, rules=_rules(config.redact))


def _rules(patterns: tuple[str, ...]) -> redaction.Rules:
    try:
        return redaction.Rules.from_patterns(names=patterns) if patterns else redaction.DEFAULT
    except ValueError as error:
        raise configs.ConfigError(f"audit.redact: {error}") from error
