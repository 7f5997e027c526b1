"""Pods per second through a real kube-scheduler."""
