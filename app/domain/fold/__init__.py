"""Parts of the fold of the log."""
