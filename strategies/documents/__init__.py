"""Typed windows on raw documents: TrainJob, TrainingRuntime, JobSet and the pod inside them.

Nothing here decodes, copies or defaults a document. The TypedDicts say which members Muster reads; a document may
hold any others. `shapes` reports members of the wrong type once, so that everything after it may rely on them.
"""

from __future__ import annotations

from strategies.documents import pods, runtimes, shapes, trainjobs

__all__ = ["pods", "runtimes", "shapes", "trainjobs"]
