"""The in-tree plugins: pure, and independent of one another.

Each plugin is a folder: plugin.py declares its capabilities, logic.py computes, README.md documents it.
"""

from app.plugins.job_affinity import plugin as job_affinity
from app.plugins.node_label_priority import plugin as node_label_priority
from app.plugins.preemption_rules import plugin as preemption_rules
from app.plugins.workload_policy import plugin as workload_policy

IN_TREE = (
    node_label_priority.NodeLabelPriority,
    job_affinity.JobAffinity,
    workload_policy.WorkloadPolicy,
    preemption_rules.PreemptionRules,
)
"""In plugin order: the first plugin that refuses a node gives the reason."""
