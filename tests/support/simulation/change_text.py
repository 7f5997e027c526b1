"""Changes of a watch as text, for the steps that a seed prints."""

from app.domain import model
from app.kube.watch import reflectors
from app.plugins.workload_policy import policy_model


def change(change: reflectors.Change) -> str:
    """The text of a change that a recorder observes."""
    match change:
        case reflectors.Seen(_, model.Node() | policy_model.WorkloadPolicy() as found, version):
            return f"{type(found).__name__} {found.name} at {version}"
        case reflectors.Seen(_, model.Pod() as pod, version):
            return f"Pod {pod.name} ({pod.uid[-4:]}) on {pod.node or 'no node'}, {pod.phase}, at {version}"
        case reflectors.Gone(_, uid, _, name, version):
            return f"the end of {name} ({uid[-4:]}) at {version}"
        case reflectors.Part(kind, found_):
            return f"a part of {kind.name}: {len(found_)}"
        case reflectors.Listed(kind, _, version, _, reason):
            return f"all {kind.name} at {version}: {reason[:60]}"
        case reflectors.Bookmark(kind, version):
            return f"a bookmark of {kind.name} at {version}"
        case _:
            return type(change).__name__
