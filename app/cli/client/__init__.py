"""The connection of `topolog get` and `explain` to an extender."""
