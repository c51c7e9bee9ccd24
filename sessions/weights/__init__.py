"""Weights in files: `files` writes a folder that appears whole or not, and reads one that is what its manifest says."""
