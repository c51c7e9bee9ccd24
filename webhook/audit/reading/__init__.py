"""Reading a log: search it, follow it while it is written, and verify its chain."""
