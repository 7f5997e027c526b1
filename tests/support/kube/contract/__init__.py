"""The parts of the contract of an API server, by subject."""
