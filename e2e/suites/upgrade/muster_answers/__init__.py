"""A distribution for Muster whose versions answer differently; never install it outside of the suites."""
