"""One thread, one seed, one history: the simulation of everything between a cluster and its store."""
