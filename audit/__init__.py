"""The audit log: one chained, redacted JSON line for each admission decision.

An admission webhook changes what people run, so it must be able to answer "which policy changed this field, and why?"
months later and reliably. A record is written in this order:

    dict → log.writer (bounded queue, own thread) → redaction → log.chain (hash of the line before) → log.sinks

and read back in this order: log.files → reading.queries (list, filter), reading.verification (find what was edited,
removed, inserted). `records` declares the shape of a record, and `schemas` checks lines against it. docs/audit.md is
the reference.
"""

from __future__ import annotations

__all__: list[str] = []
