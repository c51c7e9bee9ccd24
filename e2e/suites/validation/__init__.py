"""What people see of Muster's judgement at `kubectl apply`."""
