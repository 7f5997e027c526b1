"""Releases: the version in every file that names it, a tag, and the artifacts that are published."""
