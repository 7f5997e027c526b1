"""Lists and watches: one reflector per kind."""
