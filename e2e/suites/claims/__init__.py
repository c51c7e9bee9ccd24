"""Claims on devices: what Kubernetes and the driver do, and what Muster adds."""
