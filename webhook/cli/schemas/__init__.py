"""Schemas: what the API server says about an object before any webhook sees it.

kubectl sends objects with strict validation, so an unknown field is refused like a wrong type. Here the same is found
in a file, by the CustomResourceDefinitions of Trainer and JobSet, which `strategies/upstream` holds in a compact form.
Of the rules in CEL, and of those of Trainer's webhook for
runtimes, the API server tells.
"""

from __future__ import annotations

from muster.webhook.cli.schemas.schema_shapes import known_as
from muster.webhook.cli.schemas.schema_validation import check, corrected

__all__ = ["check", "corrected", "known_as"]
