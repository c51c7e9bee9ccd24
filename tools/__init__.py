"""Tools for the people who work on Muster; no part of what is installed."""
