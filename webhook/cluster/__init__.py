"""Everything that Muster reads from the cluster and writes to it: kinds, readers and the verbs that write.

`readers` is the interface; `memory`, `overlay` and `live` implement it, the last one on `muster.kube`.
Decisions only read, and may not wait; `writes`, `leases` and `events` are for the other parts of Muster.
"""

from __future__ import annotations
