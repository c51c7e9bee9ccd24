"""Lifecycle: whatever is done to a job that Muster admitted, no controller is ever refused."""
