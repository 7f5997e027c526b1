"""Quotas of namespaces, as CapacityScheduling of kubernetes-sigs/scheduler-plugins has them."""
