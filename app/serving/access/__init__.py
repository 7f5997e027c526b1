"""Access control: roles of callers, and the check in front of every application."""
