"""Extenders at every depth: verbs, API, server process, and whole stages."""
