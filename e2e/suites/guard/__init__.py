"""Suite: trainings in images that Muster has never seen are measured while they run (docs/guard.md)."""
