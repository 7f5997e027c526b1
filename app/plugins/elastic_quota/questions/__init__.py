"""What hypothetical questions ask of quotas: other amounts, and the smallest raises that would help."""
