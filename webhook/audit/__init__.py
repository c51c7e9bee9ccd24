"""The audit log: one chained, redacted JSON line for each admission decision.

An admission webhook changes what people run, so it owes them an answer to "which policy changed this field, and why?"
that can be read months later and trusted. The way of one record:

    dict → writer (bounded queue, own thread) → redaction → chain (hash of the line before) → sinks (file, stdout)

and back: files → queries (list, filter), verification (find what was edited, removed, inserted). docs/audit.md is the
reference.
"""

from __future__ import annotations

__all__: list[str] = []
