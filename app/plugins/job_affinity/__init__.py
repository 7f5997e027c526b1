"""The pods of a job belong together."""
