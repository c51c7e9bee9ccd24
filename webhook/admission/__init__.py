"""The admission pipeline: request, governor, strategy, decision, answer. All of it is pure."""
