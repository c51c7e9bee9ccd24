"""Tools for people who change Muster; nothing here is in the wheel."""
