"""The connection of commands such as `topolog get` and `explain` to an extender or a view."""
