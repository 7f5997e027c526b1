"""A cluster to try things on: an API server over real HTTP, a kubelet and loaders of objects."""
