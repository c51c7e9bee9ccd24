"""Writing the log: records are queued, sealed into a chain, and written to a stream or to rotated files."""
