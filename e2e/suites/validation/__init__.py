"""What users see of Muster's validation at `kubectl apply`."""
