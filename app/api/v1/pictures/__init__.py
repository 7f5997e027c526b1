"""The routes that draw a cluster and its past: each answer belongs to a resolved position, with an ETag."""
