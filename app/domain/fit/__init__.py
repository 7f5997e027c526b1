"""Where pods fit by kube-scheduler's rules, what they occupy, and which ones it would evict."""
