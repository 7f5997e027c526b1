"""TLS of the extender: certificates issued, read and checked, and reloaded by a running server."""
