"""``python -m tests.support.extender.folded_state``: the state as an extender with these settings folds it.

Prints one JSON object: the enabled plugins, the digest of the snapshot, and its counts.
"""

import contextlib
import json
import os

from app import plugins, settings
from app.store import snapshot_format, stores


def main() -> None:
    """Fold the whole log of the store and print the state."""
    chosen = settings.load(None, os.environ)
    made = plugins.configured(chosen.plugins)
    opened = stores.open_store(
        chosen.store, schema=plugins.catalog().schema, cluster=chosen.cluster, indexed=made.indexed()
    )
    with contextlib.closing(opened):
        snapshot = opened.follower.catch_up()
        shown = {
            "plugins": [plugin.name for plugin in made.plugins],
            "offset": snapshot.offset,
            "digest": snapshot_format.digest(snapshot),
            "counts": dict(snapshot.counts),
        }
    print(json.dumps(shown))


if __name__ == "__main__":
    main()
