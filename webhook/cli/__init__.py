"""The command line `muster`: the same decisions as the service, over files instead of a cluster.

`main` knows the commands and imports the one that was asked for. `sources` reads documents, `clusters` makes of them
what a decision reads, `cases` decides as the cluster would; the other modules show what came out of it.
"""

from __future__ import annotations

__all__: list[str] = []
