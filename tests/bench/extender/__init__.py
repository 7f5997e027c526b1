"""Decisions without a network: plugins, plans, quotas, preemptions, and bodies that are rejected."""
