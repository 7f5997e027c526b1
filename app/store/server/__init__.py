"""The Redis or Valkey server: URLs, discovery, connections, retries, access lists, memory."""
