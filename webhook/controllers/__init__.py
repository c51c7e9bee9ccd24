"""Makes claims and templates from profiles, and hands out the seats of shared claims.

Admission has no side effects, so the replica that holds the Lease writes what has to be written here. Every write is
also correct when two replicas believe that they hold the Lease: objects are deleted under preconditions, and a seat is
taken by compare-and-swap on its claim. See docs/sharing.md.
"""
