"""``topolog get``: its kinds, how lists are read, selected, sorted and watched."""
