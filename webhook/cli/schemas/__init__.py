"""Schemas: what the API server says about an object before any webhook sees it.

kubectl sends objects with strict validation, so an unknown field is refused like a wrong type. Here the same is found
in a file, by the CustomResourceDefinitions of Trainer and JobSet, which `strategies/upstream` holds in a compact form.
Of the rules in CEL those about one value are judged here, and those of runtimes in `runtimes`.
"""

from __future__ import annotations

from muster.webhook.cli.schemas.runtimes import check as check_runtime
from muster.webhook.cli.schemas.validation import check
from muster.webhook.cli.schemas.versions import known_as

__all__ = ["check", "check_runtime", "known_as"]
