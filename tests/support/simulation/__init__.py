"""A simulation of all processes between a cluster and its store: one thread and one seed per history."""
