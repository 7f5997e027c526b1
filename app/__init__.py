"""Topolog: an event-sourced state store and extender for kube-scheduler."""

__version__ = "0.1.0"
