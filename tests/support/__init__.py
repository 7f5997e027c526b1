"""Harnesses of the tests: everything that is neither a test nor a fixture."""
