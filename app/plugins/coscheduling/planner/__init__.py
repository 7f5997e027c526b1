"""Plans where the members of a gang go: domains of nodes, capacity on them, and the plan."""
