"""Reading a log back: searched, followed while it is written, and verified against its chain."""
