"""The guarantees, checked on the log by code that shares nothing with the product."""
