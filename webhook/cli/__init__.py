"""The command line `muster`: the same decisions as the service, over files instead of a cluster.

`main` imports the one of `commands` that was asked for. `gathering` makes of documents what a decision reads,
`cases` decides as the cluster would, `predictions` and its helpers say what Trainer would make of a TrainJob; the other
modules are what several commands share to show what came out of it.
"""

from __future__ import annotations

__all__: list[str] = []
