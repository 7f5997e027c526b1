"""``topolog control``: wakes pending pods, posts Events, releases orphaned placements."""
