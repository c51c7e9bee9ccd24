"""The audit log: one chained, redacted JSON line for each admission decision.

An admission webhook changes what people run, so it owes them an answer to "which policy changed this field, and why?"
that can be read months later and trusted. The way of one record:

    dict → log.writer (bounded queue, own thread) → redaction → log.chain (hash of the line before) → log.sinks

and back: log.files → reading.queries (list, filter), reading.verification (find what was edited, removed, inserted).
Here is the shape of a record, and how a line is held against it. docs/audit.md is the reference.
"""

from __future__ import annotations

__all__: list[str] = []
