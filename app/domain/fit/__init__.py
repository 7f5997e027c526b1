"""Fitting by kube-scheduler's rules: where pods fit, and which ones it would evict."""
