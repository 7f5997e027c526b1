"""``topolog control``: wakes pods, writes statuses and Events, and settles placements and evictions."""
