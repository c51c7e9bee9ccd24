"""Muster in real clusters: what makes one, and the suites that run there."""
