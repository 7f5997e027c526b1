"""``topolog audit``: verifies counts == replay of the log == API server, and repairs what differs."""
