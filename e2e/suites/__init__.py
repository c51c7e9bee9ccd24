"""Suites that run Muster inside a real cluster; they take a KUBECONFIG and do not know which cluster it is."""
