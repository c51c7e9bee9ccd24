"""The nodes that a decision may compare a job with: those in the reader's memory, none where it has not all of them.

A decision never waits for nodes. What they say is advice, and the scheduler has the last word.
"""

from __future__ import annotations

from collections.abc import Iterator

from strategies import placements
from strategies.documents import shapes
from webhook.cluster import readers

__all__ = ["known"]


def known(cluster: readers.ClusterReader, role: placements.Role) -> Iterator[placements.Node]:
    """Yield the role's nodes that have the shape of their kind, each read as it is taken."""
    for document in cluster.every("Node", role.node_labels) or ():
        if not shapes.check(document, "Node"):
            yield placements.node(document)
