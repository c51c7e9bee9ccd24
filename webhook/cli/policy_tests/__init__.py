"""The platform team's own cases for `muster test`."""
