"""Evictions that plugins want, and the nominations of the pods that they are for."""
