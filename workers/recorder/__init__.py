"""``topolog record``: turns the watches into facts in the log; one replica leads."""
