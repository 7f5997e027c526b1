"""Times of the API server and of the log as numbers."""

import datetime
from collections.abc import Mapping
from typing import Any


def seconds(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time; 0 for another text."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return 0.0
    return moment.timestamp() if moment.tzinfo is not None else 0.0


def started(pod: Mapping[str, Any], container: str) -> float:
    """When a container of a pod was started, in seconds since 1970; 0 if it does not run."""
    statuses = pod.get("status", {}).get("containerStatuses") or ()
    running = (one.get("state", {}).get("running") or {} for one in statuses if one.get("name") == container)
    return max((seconds(str(one.get("startedAt", ""))) for one in running), default=0.0)
