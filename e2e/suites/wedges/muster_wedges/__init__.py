"""A distribution for Muster that does to JobSets what a mutating webhook should not do; never install it."""
