"""The store: appends, replay, restarts, past offsets, sizes."""
