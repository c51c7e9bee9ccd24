"""What the cluster holds, for a decision that may not wait for it.

`readers` is the seam; `memory`, `overlay` and `live` are behind it. Only `api` imports kubernetes, and only
`live.connect` imports `api`, so that the offline CLI and the tests pay nothing for a client that they do not use.
"""

from __future__ import annotations
