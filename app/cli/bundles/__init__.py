"""The command that carries a stretch of the log away in one file, and shows it elsewhere."""
