"""The command ``topolog bundle``."""
