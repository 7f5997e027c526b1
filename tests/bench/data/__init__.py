"""What is measured: a cluster of any size, and a history of pods that come and go."""
