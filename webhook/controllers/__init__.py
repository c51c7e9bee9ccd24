"""Claims and seats: makes claims and templates from profiles, and hands out the seats of shared claims.

Admission has no side effects, so what has to be written is written here, by the one replica that holds a Lease. Every
write is also right when two replicas believe that they hold it: objects are deleted under preconditions, and a seat is
taken by compare-and-swap on its claim. See docs/controllers.md.
"""
