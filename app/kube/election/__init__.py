"""Leader election by a Lease (coordination.k8s.io/v1)."""
