"""The audit log: one chained, redacted JSON line for each admission decision.

An admission webhook changes what people run, so it must be able to answer "which policy changed this field, and why?"
months later and reliably. A record is written in this order:

    dict → known → writer (bounded queue, own thread) → sink_worker → chain (hash of the line before) → sinks

and read back in this order: log_files → queries (list, filter), verification (find what was edited, removed, inserted).
`record_schema` declares the shape of a record and checks values against it. docs/audit.md is the reference.
"""

from __future__ import annotations

__all__: list[str] = []
