"""``topolog compact``: takes checkpoints, archives and trims the log."""
