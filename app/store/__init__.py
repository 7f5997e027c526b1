"""The only package that talks to Redis: the log, its views, and the snapshots read from it."""
