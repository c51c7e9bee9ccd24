"""Muster in real clusters: what makes one, what installs Muster in it, and the suites that run there."""
