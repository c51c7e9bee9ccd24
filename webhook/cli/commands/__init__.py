"""One module for each command of `muster`, named as people type it; `muster.webhook.cli` has what they share."""
