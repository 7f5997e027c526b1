"""Nodes that run pods as processes: networks, volumes, containers, probes, and the kubelet of all of them."""
