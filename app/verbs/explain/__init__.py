"""Explains why a pod went where it went: the Trace of a past decision, advice, and tables of both."""
