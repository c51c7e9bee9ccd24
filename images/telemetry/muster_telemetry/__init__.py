"""What a training by reinforcement learning shows of itself: metrics for Prometheus, a plot, numbers for the guard.

All of it is read from what TRL logs, so that it is the same for each trainer of TRL and each way of weights; what TRL
does not log, the seconds of a synchronous trainer's syncs and its speed, is added to its logs.
"""
