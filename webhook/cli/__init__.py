"""The command line `muster`: the same decisions as the service, about files instead of a cluster.

`main` imports the module in `commands` that was asked for. `gathering` turns documents into what a decision reads,
`cases` decides as the cluster would, and predicts the JobSet of a TrainJob. The other modules show results
for several commands.
"""

from __future__ import annotations

__all__: list[str] = []
