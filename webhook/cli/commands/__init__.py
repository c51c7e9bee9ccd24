"""One module for each command of `muster`, named as people type it; `webhook.cli` has what they share."""
