"""Weights in folders: a folder appears whole or not (`folders`), says what it holds (`manifest`), is read verified."""
