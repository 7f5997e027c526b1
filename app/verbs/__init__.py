"""One use case per file: what the scheduler and the operators can ask for."""
