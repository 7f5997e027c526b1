"""``topolog doctor``: checks of an installation as pure functions of facts, and what gathers the facts."""
