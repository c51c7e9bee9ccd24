"""kubeflow's own SDK sends trainers of package `muster` to a real cluster."""
