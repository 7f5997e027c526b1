"""Limits or prefers numbers of pods per value of a node label (kosmos.io/v1alpha1 WorkloadPolicy)."""
