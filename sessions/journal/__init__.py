"""The journal: what was asked, in which order, what came of it; it outlives every process."""
