"""Releases placements that will not be bound."""
