"""Logs of the service: one JSON object per line on stderr, constant messages, facts in keys.

stdout belongs to the audit records. Every text of a line passes the door that takes secrets out, tracebacks too, since
exceptions quote what a user wrote.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import threading

from muster.webhook.audit.redaction import doors

__all__ = ["JsonFormatter", "configure"]

_log = logging.getLogger(__name__)
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON without secrets; `extra` becomes further keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; never raises."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": doors.text(_Message(record)),
            **{key: doors.value(value) for key, value in record.__dict__.items() if key not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = doors.text(_Traceback(self, record))
        return json.dumps(line, default=doors.text)


class _Message:
    def __init__(self, record: logging.LogRecord) -> None:
        self._record = record

    def __str__(self) -> str:
        return self._record.getMessage()


class _Traceback:
    def __init__(self, formatter: logging.Formatter, record: logging.LogRecord) -> None:
        self._formatter, self._record = formatter, record

    def __str__(self) -> str:
        return self._formatter.formatException(self._record.exc_info) if self._record.exc_info else ""


def configure(level: str = "INFO") -> None:
    """Send all logs to stderr, one JSON object per line, and what ends a thread too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    threading.excepthook = _ended


def _ended(ending: threading.ExceptHookArgs) -> None:
    if ending.exc_value is not None:
        _log.error("a thread ended", exc_info=ending.exc_value)
