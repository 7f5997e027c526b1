"""What a Prometheus sees of the five processes, and which alerts it would raise."""
