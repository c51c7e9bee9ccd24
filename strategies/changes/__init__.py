"""Changes of a document: how they are recorded, restored on an update, and kept in lists that others write.

`Changes` is at once the patch, the audit record, the explanation and the memory of a job.
"""

from __future__ import annotations

from muster.strategies.changes.changes import Change, Changes, Operation

__all__ = ["Change", "Changes", "Operation"]
