"""Metrics of real processes, and alerts that are evaluated over them."""
