"""The only speaker to the API server."""
