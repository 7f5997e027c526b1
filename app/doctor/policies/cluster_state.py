"""Reads the state that plugins diagnose from the API server, as the recorder does, but once."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.doctor import api_reader
from app.domain import declared_objects, events, model, projections, schema, snapshots
from app.framework import doctor_checks
from app.kube import errors
from app.kube.objects import decoding

_WORKLOADS = {
    "Deployment": "/apis/apps/v1/deployments",
    "StatefulSet": "/apis/apps/v1/statefulsets",
    "Job": "/apis/batch/v1/jobs",
}


def snapshot(
    reader: api_reader.ApiReader, declared: schema.Schema, indexed: Iterable[str]
) -> snapshots.Snapshot:
    """Nodes, pods and the objects of all kinds; what cannot be decoded is left out. Raises Unseen."""
    return projections.project_all(
        snapshots.empty(schema=declared, indexed=indexed), [*_events(reader, declared)]
    )


def workloads(reader: api_reader.ApiReader) -> tuple[doctor_checks.Workload, ...]:
    """Deployments, StatefulSets and Jobs; none of a kind that is not served. Raises Unseen."""
    return tuple(_workload(kind, one) for kind, path in _WORKLOADS.items() for one in _served(reader, path))


def _served(reader: api_reader.ApiReader, path: str) -> list[Mapping[str, Any]]:
    try:
        return reader.items(path)
    except api_reader.Missing:
        return []


def _events(reader: api_reader.ApiReader, declared: schema.Schema) -> Iterator[events.AnyEvent]:
    for node in reader.items("/api/v1/nodes"):
        try:
            yield events.NodeSeen(node=decoding.node(json.dumps(node).encode()))
        except errors.Undecodable:
            continue
    for kind in declared.kinds:
        for found in _objects(reader, kind):
            try:
                seen, _ = decoding.declared_seen(kind, json.dumps(found).encode())
            except errors.Undecodable:
                continue
            yield kind.observed(seen)
    for pod in reader.items("/api/v1/pods"):
        try:
            yield events.PodSeen(pod=decoding.pod(json.dumps(pod).encode()))
        except errors.Undecodable:
            continue


def _objects(
    reader: api_reader.ApiReader, kind: declared_objects.Kind[model.DeclaredObject]
) -> list[Mapping[str, Any]]:
    """The objects in the first version that the API server serves; none if it serves none."""
    for version in kind.versions:
        prefix = f"/apis/{kind.group}/{version}" if kind.group else f"/api/{version}"
        try:
            return reader.items(f"{prefix}/{kind.resource}")
        except api_reader.Missing:
            continue
    return []


def _workload(kind: str, document: Mapping[str, Any]) -> doctor_checks.Workload:
    metadata, spec = document["metadata"], document.get("spec", {})
    template = spec.get("template", {})
    pod = template.get("spec", {})
    # A Deployment's only: a StatefulSet always removes a pod before it makes the new one.
    rolling = (spec.get("strategy") or {}).get("rollingUpdate") or {}
    return doctor_checks.Workload(
        kind,
        metadata["namespace"],
        metadata["name"],
        metadata.get("labels") or {},
        template.get("metadata", {}).get("labels") or {},
        pod.get("schedulerName") or "default-scheduler",
        pod.get("nodeName") or "",
        int(spec.get("replicas", spec.get("parallelism", 1)) or 0),
        str(rolling.get("maxUnavailable", "")),
        str(rolling.get("maxSurge", "25%")),
    )
