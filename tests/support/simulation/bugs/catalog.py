"""All bugs that are planted. Most break one line that a comment or a test of the module describes."""

from tests.support.simulation.bugs import binding_bugs, gang_bugs, log_bugs, quota_bugs, recorder_bugs
from tests.support.simulation.bugs.planted_bugs import Bug

BUGS = (*log_bugs.BUGS, *recorder_bugs.BUGS, *binding_bugs.BUGS, *gang_bugs.BUGS, *quota_bugs.BUGS)


def named(name: str) -> Bug:
    """The bug whose name begins with this."""
    return next(bug for bug in BUGS if bug.name.startswith(name))
