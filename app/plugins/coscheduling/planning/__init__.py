"""Where the members of a gang go: domains of nodes, room on them, and the plan."""
