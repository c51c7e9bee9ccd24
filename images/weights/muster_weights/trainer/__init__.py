"""What runs beside TRL's trainers: it publishes each version, has the sampler load it, and compares what is served."""
