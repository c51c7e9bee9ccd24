"""One module for each command of `muster`, named as people type it; what several of them need is in `webhook.cli`."""
