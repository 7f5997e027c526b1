"""Summaries of quotas and pods for the views."""
