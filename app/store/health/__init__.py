"""Checks of the store: durability, readiness, access lists, and ``topolog doctor store``."""
