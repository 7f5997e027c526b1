"""The time of a bind, as the processes compute it from their settings, with those by default."""

from app import settings
from app.kube.writes import binding

OLD = settings.Budgets().bind + binding.UNDER_WAY
"""Seconds after a placement at which its Binding is no longer under way."""
