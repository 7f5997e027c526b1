"""A simulated API server: real HTTP and watches, objects in memory, faults on demand."""
