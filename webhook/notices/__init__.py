"""Telling the cluster about decisions: Events on denials, and one report in each namespace."""
