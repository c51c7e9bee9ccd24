"""The command line `muster`: the same decisions as the service, over files instead of a cluster.

`main` knows the commands and imports the one that was asked for. `clusters` makes of documents what a decision reads,
`cases` decides as the cluster would, `predictions` and its helpers say what Trainer would make of a TrainJob; the other
modules are a command each, or show what came out of it.
"""

from __future__ import annotations

__all__: list[str] = []
