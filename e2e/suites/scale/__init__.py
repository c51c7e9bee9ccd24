"""Hundreds of TrainJobs at once, on fake nodes."""
