"""The command `muster sessions`."""
