"""The simulated cluster: its objects, what users and kubelets change, and clients of its API server."""
