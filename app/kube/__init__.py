"""Access to the Kubernetes API server; no other package calls it."""
