"""Real processes that campaigns kill, cut off, mutate and put under load."""
