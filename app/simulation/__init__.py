"""A simulated cluster: an API server over real HTTP, kubelets, a scheduler and generated objects."""
