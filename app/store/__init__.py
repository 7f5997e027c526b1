"""The only speaker of Redis: the log, what is derived from it in the same call, and those who follow it."""
