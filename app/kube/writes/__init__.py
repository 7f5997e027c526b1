"""Writes to the API server: Bindings, fences, evictions, conditions, statuses, Events and Secrets."""
