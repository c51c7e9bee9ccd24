"""A look at a live installation from outside, with the rights of whoever asks: what `muster doctor` finds.

Nothing is written: all requests read, or are reviews of access and creations with `dryRun=All`, which the API server
answers and forgets. What an installation should be is read from the manifests that come with this version, so there is
no second list that could disagree with them.
"""
