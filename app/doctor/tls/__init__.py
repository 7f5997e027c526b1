"""Checks of the certificates of both sides of a call: the extender's and kube-scheduler's."""
