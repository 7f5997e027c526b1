"""Loads the published trace of a GPU cluster, or generates one of the same shape.

The trace is "openb", published with "Beware of Fragmentation" (USENIX ATC 2023) at
https://github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023/csv. It has one CSV of nodes (sn,
cpu_milli, memory_mib, gpu, model) and several of pods (name, cpu_milli, memory_mib, num_gpu, gpu_milli,
gpu_spec, qos, pod_phase, creation_time, deletion_time, scheduled_time). It has no zones, racks or jobs; zones
and racks are added here, from a seed.
"""

import csv
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NODES_FILE = "openb_node_list_all_node.csv"
PODS_FILE = "openb_pod_list_default.csv"
ZONES = (("zone-a", 0.5), ("zone-b", 0.3), ("zone-c", 0.2))
_RACK = 18
"""Nodes per rack, all of one model."""
_NO_ZONE = 0.02
"""Share of nodes without a zone label, as in real clusters."""
_SHAPES = (
    # share of nodes, cpu milli, memory MiB, GPUs, model: the mix of the published trace
    (0.37, 96_000, 393_216, 8, "G2"),
    (0.27, 104_000, 524_288, 2, "T4"),
    (0.12, 32_000, 262_144, 0, ""),
    (0.09, 16_000, 122_880, 2, "P100"),
    (0.08, 96_000, 524_288, 0, ""),
    (0.04, 32_000, 131_072, 4, "V100M16"),
    (0.03, 128_000, 786_432, 8, "G3"),
)
_SEED = 0
_POD_CPU = (2000, 4000, 6000, 8000)
"""Milli-CPU."""
_POD_MEMORY = (4096, 12_288)
"""MiB."""


class InvalidTrace(ValueError):
    """The files are not a trace; the text names the file, the line and the problem."""


@dataclass(frozen=True, slots=True)
class NodeShape:
    """A node of the trace."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


@dataclass(frozen=True, slots=True)
class PodShape:
    """A pod of the trace."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Trace:
    """The nodes and pods of a trace, and their source."""

    nodes: tuple[NodeShape, ...]
    pods: tuple[PodShape, ...]
    source: str


def load(folder: Path) -> Trace:
    """The trace in a folder. Raises InvalidTrace."""
    nodes = tuple(
        NodeShape(row["sn"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["gpu"]), row["model"])
        for row in _rows(folder / NODES_FILE, ("sn", "cpu_milli", "memory_mib", "gpu", "model"))
    )
    pods = tuple(
        PodShape(row["name"], int(row["cpu_milli"]), int(row["memory_mib"]), int(row["num_gpu"]))
        for row in _rows(folder / PODS_FILE, ("name", "cpu_milli", "memory_mib", "num_gpu"))
    )
    return Trace(nodes, pods, source=f"trace in {folder.name}")


def generate(*, nodes: int = 1523, pods: int = 8152) -> Trace:
    """A trace of the same shape, when the published one is not available."""
    dice = random.Random(_SEED)
    shapes, weights = _SHAPES, [shape[0] for shape in _SHAPES]
    chosen = dice.choices(shapes, weights, k=nodes)
    gpus = dice.choices((0, 1, 2, 4, 8), (1088, 6989, 16, 15, 44), k=pods)
    return Trace(
        tuple(
            NodeShape(f"node-{at:04d}", cpu, memory, count, model)
            for at, (_, cpu, memory, count, model) in enumerate(chosen)
        ),
        tuple(
            PodShape(f"pod-{at:04d}", dice.choice(_POD_CPU), dice.choice(_POD_MEMORY), count)
            for at, count in enumerate(gpus)
        ),
        source=f"generated (seed {_SEED})",
    )


def node_objects(trace: Trace) -> Iterator[dict[str, Any]]:
    """v1.Node objects with zone and rack labels: one model per rack, zones of different sizes."""
    dice = random.Random(_SEED)
    zones, weights = [zone for zone, _ in ZONES], [share for _, share in ZONES]
    by_model = sorted(trace.nodes, key=lambda shape: (shape.model, shape.name))
    zone = zones[0]
    for at, shape in enumerate(by_model):
        if at % _RACK == 0:
            zone = dice.choices(zones, weights)[0]
        labels = {"kubernetes.io/hostname": shape.name, "topology.topolog.io/rack": f"rack-{at // _RACK:03d}"}
        if dice.random() >= _NO_ZONE:
            labels["topology.kubernetes.io/zone"] = zone
        if shape.model:
            labels["gpu.model"] = shape.model
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": shape.name, "labels": labels},
            "status": {"allocatable": _amounts(shape), "conditions": [{"type": "Ready", "status": "True"}]},
        }


def requests(shape: PodShape) -> dict[str, str]:
    """A container's resource requests."""
    return _amounts(shape, pods=False)


def _amounts(shape: NodeShape | PodShape, *, pods: bool = True) -> dict[str, str]:
    amounts = {"cpu": f"{shape.cpu_milli}m", "memory": f"{shape.memory_mib}Mi"}
    if shape.gpus:
        amounts["nvidia.com/gpu"] = str(shape.gpus)
    return amounts | {"pods": "110"} if pods else amounts


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[dict[str, str]]:
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise InvalidTrace(f"{path}: no column {', '.join(missing)}")
            for row in reader:
                for column in columns:
                    if column not in ("sn", "name", "model") and not (row[column] or "").isdigit():
                        raise InvalidTrace(
                            f"{path}, line {reader.line_num}: {column} is {row[column]!r}, not a whole number"
                        )
                yield row
    except OSError as error:
        raise InvalidTrace(
            f"{path}: {error.strerror}; TOPOLOG_TRACE must name a folder with {NODES_FILE} and {PODS_FILE}"
            " from https://github.com/alibaba/clusterdata (cluster-trace-gpu-v2023/csv), or be empty to use a"
            " generated trace"
        ) from error
