"""Checks of a live installation from outside, with the rights of the user: what `muster doctor` finds.

Nothing is written: all requests are reads, access reviews, or creations with `dryRun=All`, which the API server does
not store. The expected state is read from the manifests that come with this version, so no second list can differ from
them.
"""
