"""Runs tests on several versions of Kubernetes, of the store and of Python, and records the results."""
