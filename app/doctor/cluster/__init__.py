"""Checks of what the manifests of deploy/ have to create in a cluster, and of how its pods are doing."""
