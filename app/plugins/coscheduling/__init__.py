"""The Coscheduling plugin."""
