"""Decodes Kubernetes JSON into domain objects."""
