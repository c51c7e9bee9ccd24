"""The audit writer that the configuration asks for."""

from __future__ import annotations

from functools import partial

from webhook import configs
from webhook.audit import redaction, sinks, writer
from webhook.metrics import Metrics

__all__ = ["AuditRecorder", "open_recorder"]

_CLOSE_SECONDS = 5.0


class AuditRecorder:
    """An `AuditWriter` with an end: what is waiting is written within a few seconds, or counted as dropped."""

    def __init__(self, audit: writer.AuditWriter) -> None:
        self.submit = audit.submit
        self._audit = audit

    def close(self) -> None:
        """Write what waits and close the sinks; blocks for some seconds at most."""
        self._audit.close(_CLOSE_SECONDS)


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
            redactor=partial(redaction.redact, rules=_rules(config.redact)),
            on_drop=lambda _reason, count: metrics.audit_problem("dropped", count),
            on_error=lambda _name, _error: metrics.audit_problem("sink"),
        )
    )


def _rules(patterns: tuple[str, ...]) -> redaction.Rules:
    try:
        return redaction.Rules.of(names=patterns) if patterns else redaction.DEFAULT
    except ValueError as error:
        raise configs.ConfigError(f"audit.redact: {error}") from error
