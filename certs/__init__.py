"""Certificates for the webhook: who signs them, which one is served, and how it is replaced while connections are open.

The API server calls a webhook over TLS and trusts only the CA bundle in the webhook's configuration. This package
makes such a CA and a leaf, or takes them from files, and puts new ones on a live listener without a restart. It
knows nothing about jobs, frameworks or HTTP.

Nothing is imported here on purpose: `contexts`, `sources`, `followers` and `probes` stay free of `cryptography`
(about 11 MiB) until a certificate has to be made or read.
"""

from __future__ import annotations

__all__: list[str] = []
