"""Client I/O: connections and their deadlines, request heads and bodies, responses."""
