"""Publishes decisions in the cluster: Events on denials, and one report in each namespace."""
