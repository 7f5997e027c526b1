"""Where pods fit by kube-scheduler's rules, and which ones it would evict."""
