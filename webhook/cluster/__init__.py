"""Everything that is read of the cluster and written to it: the kinds, the readers, and the verbs that write.

`readers` is the seam; `memory`, `overlay` and `live` are behind it. Only `api` imports kubernetes, and only
`live.connect` imports `api`, so that the offline CLI and the tests pay nothing for a client that they do not use.
Decisions read, and may not wait; `writes`, `leases` and `events` are for the parts beside them.
"""

from __future__ import annotations
