"""What the pictures of a cluster show: pure functions of snapshots, without a name of a plugin."""
