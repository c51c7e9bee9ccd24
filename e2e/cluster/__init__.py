"""A real Kubernetes with the real Trainer and JobSet controllers and Muster in front, without Docker or a registry.

Every binary is built from Go modules whose versions are pinned in `e2e/binaries`. `python -m e2e.cluster up` brings a
cluster up in one state folder, `down` removes all of it.
"""
