"""What is true. Pure: no clock, no randomness, no I/O."""
