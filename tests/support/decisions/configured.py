"""Recorded configurations for tests: the plugins that come with Topolog can be enabled."""

from app import plugins
from app.framework import registry
from app.store import stores
from app.verbs.explain import recorded_configurations


def by(present: registry.Registry, store: stores.Store) -> recorded_configurations.RecordedConfigurations:
    """Those of the log, asked by a process with these plugins."""
    return recorded_configurations.RecordedConfigurations(
        present, plugins.IN_TREE, lambda: store.follower.snapshot
    )
