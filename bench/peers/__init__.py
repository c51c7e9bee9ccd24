"""Muster beside its alternatives, measured through one real API server: `make bench-peers`.

Each peer is a module with one shape (`shapes.Peer`): it is built, started, registered, checked, measured, removed and
ended, in every round again, so that no other peer runs meanwhile. The peers are built from their public modules, whose
versions are in `binaries`; nothing of theirs is in this repository. Command lines that judge files (`offline`) and the
growth of Muster's own cost (`bench.scaling`) are measured by the same command.
"""
