"""Compares what `muster` reports offline about a job with what a cluster stores."""
