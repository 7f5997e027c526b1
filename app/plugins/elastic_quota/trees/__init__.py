"""Trees of quotas: the quota of a pod, what each requests and uses, and its share of the cluster."""
