"""Evicts pods together that cannot do without one another."""
