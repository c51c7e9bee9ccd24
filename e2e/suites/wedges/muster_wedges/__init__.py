"""A distribution for Muster that does to JobSets what a mutating webhook had better not do; never install it."""
