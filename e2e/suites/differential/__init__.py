"""What `muster` says offline about a job, beside what a cluster makes of it."""
