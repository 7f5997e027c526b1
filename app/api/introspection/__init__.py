"""Shared parts of the REST routes: moments, pages, queries, schemas, services."""
