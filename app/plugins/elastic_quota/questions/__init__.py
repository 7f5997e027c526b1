"""Quotas in hypothetical questions: other amounts, and the smallest raises that would help."""
