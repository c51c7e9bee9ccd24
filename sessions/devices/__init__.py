"""Engines of many sessions take turns on the memory of one device."""
