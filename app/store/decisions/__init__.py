"""Decision records: one for each reply to kube-scheduler, in bounded space."""
