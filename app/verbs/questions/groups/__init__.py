"""Questions about pods that are placed together."""
