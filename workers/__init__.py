"""The processes beside the service: each a loop over app, no web code."""
