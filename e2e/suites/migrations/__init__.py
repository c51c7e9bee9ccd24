"""`muster migrate` makes of the old operators' own examples what a cluster with Trainer and Muster accepts."""
