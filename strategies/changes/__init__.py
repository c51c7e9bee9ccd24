"""Changes of a document: recorded once, restored on an update, and list entries that stay.

`Changes` is the patch, the audit record, the explanation and the memory of a job at once.
"""

from __future__ import annotations

from strategies.changes.changes import Change, Changes, Operation

__all__ = ["Change", "Changes", "Operation"]
