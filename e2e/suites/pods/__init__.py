"""What pods really get: jobs are applied and mutated, and the result is read inside running containers."""
