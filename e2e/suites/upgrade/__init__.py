"""Upgrade: jobs keep the answer that they were created with, whatever version of Muster follows; runs alone."""
