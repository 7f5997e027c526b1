"""A range of the log played once in a situation: what it does, and the histories that move along."""
