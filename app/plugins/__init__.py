"""Opinions about where pods go: pure, and strangers to one another.

Each is a folder: plugin.py declares what it can do, logic.py is the arithmetic, README.md says why.
"""

from app.plugins.job_affinity import plugin as job_affinity
from app.plugins.node_label_priority import plugin as node_label_priority
from app.plugins.workload_policy import plugin as workload_policy

IN_TREE = (
    node_label_priority.NodeLabelPriority,
    job_affinity.JobAffinity,
    workload_policy.WorkloadPolicy,
)
"""In the order in which they are asked: the first that refuses a node gives the reason."""
