"""Standard error, which may be closed like standard output, as by ``2>&1 | head``."""

import select
import sys


def closed() -> bool:
    """Whether its reader has closed it, such as head."""
    if sys.stderr is None:
        return False  # Its descriptor may be that of any file.
    poller = select.poll()
    poller.register(2, 0)
    return any(happened & (select.POLLERR | select.POLLHUP) for _, happened in poller.poll(0))
