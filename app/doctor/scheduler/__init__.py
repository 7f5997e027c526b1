"""Checks of kube-scheduler: its configuration, and the schedulers of a cluster."""
