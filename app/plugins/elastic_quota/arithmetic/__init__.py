"""How the resources of a cluster are divided between quotas: trees, requests and rounds of sharing."""
