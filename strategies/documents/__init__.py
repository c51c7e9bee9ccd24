"""Typed windows on raw documents: TrainJob, TrainingRuntime, JobSet and the pod inside them.

Nothing here decodes, copies or defaults a document. The TypedDicts list the members that Muster reads; a document
may hold any others. `decoding` reports members of the wrong type once, so that all later code may rely on the types.
"""

from __future__ import annotations

from muster.strategies.documents import decoding, pods, runtimes, trainjobs

__all__ = ["decoding", "pods", "runtimes", "trainjobs"]
