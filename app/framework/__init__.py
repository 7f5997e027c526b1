"""Runs plugins over a cycle: registry, capabilities and the decision pipeline. Pure."""
