"""Logs of the service: one JSON object per line on stderr, constant messages, facts in keys.

stdout belongs to the audit records. Texts lose tokens of a known form. Of an exception a line has its type and where
it was raised, and its text only where the system wrote it: others quote what a user wrote.
"""

from __future__ import annotations

import datetime
import json
import logging
import sys
import threading
import traceback

from muster.audit import scanner

__all__ = ["JsonFormatter", "configure"]

_log = logging.getLogger(__name__)
_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_CHAINED = 5  # exceptions of one line, each the cause of the one before


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON; `extra` becomes further keys."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end; never raises."""
        moment = datetime.datetime.fromtimestamp(record.created, datetime.UTC)
        line = {
            "time": moment.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scanner.text(_Message(record)),
            **{key: _fact(value) for key, value in record.__dict__.items() if key not in _STANDARD},
        }
        if record.exc_info:
            line["exception"] = scanner.text("\n".join(_raised(record.exc_info[1])))
        return json.dumps(line, default=scanner.text)


class _Message:
    """The message of a record; of a library only its first line, since the others may be an exception's text."""

    def __init__(self, record: logging.LogRecord) -> None:
        self._record = record

    def __str__(self) -> str:
        message = self._record.getMessage()
        return message if self._record.name.startswith("muster") else message.partition("\n")[0]


def _fact(value: object) -> object:
    """Return a value as JSON has it, without tokens of a known form."""
    try:
        return json.loads(scanner.text(json.dumps(value, default=str)))
    except (TypeError, ValueError, RecursionError):
        return scanner.text(value)


def _raised(error: BaseException | None) -> list[str]:
    lines: list[str] = []
    for _ in range(_CHAINED):
        if error is None:
            break
        said = f": {error}" if isinstance(error, OSError) else ""
        lines += [f"{type(error).__qualname__}{said}", *map(str.rstrip, traceback.format_tb(error.__traceback__))]
        error = error.__cause__ or error.__context__
    return lines


def configure(level: str = "INFO") -> None:
    """Send all logs to stderr, one JSON object per line, and what ends a thread too."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    threading.excepthook = _ended


def _ended(ending: threading.ExceptHookArgs) -> None:
    if ending.exc_value is not None:
        _log.error("a thread ended", exc_info=ending.exc_value)
