"""The real control plane, and what runs beside it: kubelets, schedulers, installations, workloads."""
