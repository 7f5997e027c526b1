"""HTTP: decides nothing."""
