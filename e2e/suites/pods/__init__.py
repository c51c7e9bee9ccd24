"""What pods really get: apply, mutate, and look from inside the containers that run."""
