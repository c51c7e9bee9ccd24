"""Engines: what computes. `seam` is what the Gateway knows of them."""
