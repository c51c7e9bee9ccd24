"""The audit writer that the configuration asks for, and Events beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from webhook import configs
from webhook.audit import records, redaction, sinks, writer
from webhook.cluster import transports
from webhook.controllers import denials, writes
from webhook.metrics import Metrics

__all__ = ["Announcer", "AuditRecorder", "open_announcer", "open_recorder"]

_CLOSE_SECONDS = 5.0


class AuditRecorder:
    """An `AuditWriter` with an end: what is waiting is written within a few seconds, or counted as dropped."""

    def __init__(self, audit: writer.AuditWriter) -> None:
        self.submit = audit.submit
        self._audit = audit

    def close(self) -> None:
        """Write what waits and close the sinks; blocks for some seconds at most."""
        self._audit.close(_CLOSE_SECONDS)


class Announcer:
    """Passes records on, and has an Event written of each denial; needs a running event loop.

    Args:
        recorder: that keeps the records.
        made: writes the Events.
    """

    def __init__(self, recorder: AuditRecorder, made: denials.Denials) -> None:
        self._submit = recorder.submit
        self._denials = made
        self._task = asyncio.create_task(made.run(), name="events on denials")

    def submit(self, record: records.Record) -> bool:
        """Return False when the record cannot be kept and the platform wants jobs refused then."""
        self._denials.take(record)
        return self._submit(record)

    async def stop(self) -> None:
        """Stop; Events that wait are not written any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


def open_announcer(
    config: configs.Audit, recorder: AuditRecorder, sender: transports.Sender | None, metrics: Metrics
) -> Announcer:
    """Start to write Events on denials.

    Raises:
        ConfigError: there is no API server to write to.
    """
    if sender is None:
        raise configs.ConfigError("audit.events: true needs cluster.source: live, an API server to write to")
    access = writes.Writes(sender, counted=metrics.written)
    return Announcer(recorder, denials.Denials(access, _redactor(config), partial(metrics.audit_problem, "event")))


def open_recorder(config: configs.Audit, metrics: Metrics) -> AuditRecorder:
    """Open the sinks and start the writer.

    Raises:
        ConfigError: no sink is named, or a redaction pattern is no regular expression.
    """
    chosen: list[sinks.Sink] = []
    if config.file is not None:
        chosen.append(
            sinks.RotatingFileSink(config.file.path, max_bytes=config.file.max_bytes, backups=config.file.backups)
        )
    if config.stdout:
        chosen.append(sinks.StreamSink())
    if not chosen:
        raise configs.ConfigError("audit: stdout is false and no file is named; keep one of them")
    return AuditRecorder(
        writer.AuditWriter(
            chosen,
            queue_size=config.queue_size,
            on_failure=config.on_failure,
            redactor=_redactor(config),
            on_drop=lambda _reason, count: metrics.audit_problem("dropped", count),
            on_error=lambda _name, _error: metrics.audit_problem("sink"),
        )
    )


def _redactor(config: configs.Audit) -> Callable[[records.Record], records.Record]:
    return partial(redaction.redact, rules=_rules(config.redact))


def _rules(patterns: tuple[str, ...]) -> redaction.Rules:
    try:
        return redaction.Rules.of(names=patterns) if patterns else redaction.DEFAULT
    except ValueError as error:
        raise configs.ConfigError(f"audit.redact: {error}") from error
