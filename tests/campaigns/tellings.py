"""What happens in a simulation, in words."""

from app.domain import model
from app.kube import reflecting


def change(change: reflecting.Change) -> str:
    """What a recorder hears."""
    match change:
        case reflecting.Seen(_, model.Node() | model.WorkloadPolicy() as found, version):
            return f"{type(found).__name__} {found.name} at {version}"
        case reflecting.Seen(_, model.Pod() as pod, version):
            return f"Pod {pod.name} ({pod.uid[-4:]}) on {pod.node or 'no node'}, {pod.phase}, at {version}"
        case reflecting.Gone(_, uid, _, name, version):
            return f"the end of {name} ({uid[-4:]}) at {version}"
        case reflecting.Part(kind, found_):
            return f"a part of {kind.name}: {len(found_)}"
        case reflecting.Listed(kind, _, version, _, reason):
            return f"all {kind.name} at {version}: {reason[:60]}"
        case reflecting.Bookmark(kind, version):
            return f"a bookmark of {kind.name} at {version}"
        case _:
            return type(change).__name__
