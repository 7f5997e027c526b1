"""How many pods of a workload each value of a node label gets (kosmos.io/v1alpha1 WorkloadPolicy)."""
