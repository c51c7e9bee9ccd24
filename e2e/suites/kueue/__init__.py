"""Kueue beside Muster: queues and quotas in one cluster, and jobs that a manager hands to a worker cluster."""
