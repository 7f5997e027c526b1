"""Writes to the API server: Bindings, pod conditions and Events."""
