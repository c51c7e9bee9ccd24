"""Logs of the service: one JSON object per line on stderr, constant messages, facts in keys.

stdout belongs to the audit records.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys

__all__ = ["JsonFormatter", "configure"]

_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON; `extra` becomes further keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **{key: value for key, value in record.__dict__.items() if key not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str = "INFO") -> None:
    """Send all logs to stderr, one JSON object per line."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
