"""The real control plane, and what stands beside it: kubelets, schedulers, installations, workloads."""
