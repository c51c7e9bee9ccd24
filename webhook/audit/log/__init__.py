"""Writing the log: records are taken, sealed into a chain, and put on a stream or into files that are rotated."""
