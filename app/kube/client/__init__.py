"""HTTP clients of the API server, and their credentials."""
