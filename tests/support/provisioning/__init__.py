"""An installation in a cluster before it runs: its namespace and its Secrets."""
