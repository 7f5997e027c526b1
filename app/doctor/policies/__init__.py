"""Checks of the plugins' objects and of the pods that they concern; the plugins declare them."""
