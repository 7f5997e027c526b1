"""The commands around ``topolog view``: the process, its streams, and the way into the dashboard."""
