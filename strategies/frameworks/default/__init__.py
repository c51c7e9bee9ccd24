"""The strategy for every framework without one of its own, and for jobs without a framework label."""
