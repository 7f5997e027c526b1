"""Memory of an extender process: what the next call needs of the last ones."""
